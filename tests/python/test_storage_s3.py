"""Storages in a bucket of S3, which fails while it is written and read."""

import pytest

import nodes
import objects
from zwire import errors, storage, zenoh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with objects.store() as server:
        yield server


@pytest.fixture
def bucket(server, request):
    """A volume in a bucket of its own."""
    name = f"b{abs(hash(request.node.name)) % 10**9}"
    server.bucket(name)
    yield storage.S3(name, url=server.endpoint, region="us-east-1", access_key="key", secret_key="secret")
    server.heal()


def values(session, selector):
    replies = list(session.get(selector))
    assert all(reply.ok for reply in replies), [
        reply.err.payload.to_string() for reply in replies if reply.err
    ]
    return {str(reply.ok.key_expr): reply.ok.payload.to_string() for reply in replies}


def test_objects_are_values(session, server, bucket):
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        session.put("a/x/y", "1", encoding="text/plain;v=1", attachment=b"\0note")
        session.put("a", "the prefix")
        session.put("a/z", "2")
        session.delete("a/z")
        kept.flush()
        assert values(session, "a/**") == {"a": "the prefix", "a/x/y": "1"}
        (reply,) = session.get("a/x/y")
    assert server.call("GET", f"/{bucket.bucket}/x/y") == b"1"
    assert server.call("GET", f"/{bucket.bucket}/@@none_key@@") == b"the prefix"
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        assert kept.stats()["keys"] == 2
        (again,) = session.get("a/x/y")
        assert again.ok.encoding == reply.ok.encoding == zenoh.Encoding.TEXT_PLAIN.with_schema("v=1")
        assert again.ok.attachment.to_bytes() == b"\0note"
        assert again.ok.timestamp == reply.ok.timestamp


def test_updates_wait_while_the_server_fails(session, server, bucket):
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        server.fail("PUT", "w", status=503, code="SlowDown")
        session.put("a/w", "1")
        nodes.eventually(lambda: kept.stats()["problem"], "the failure is seen", within=25)
        assert "SlowDown" in kept.stats()["problem"]
        with pytest.raises(errors.NotDurable, match="SlowDown"):
            kept.flush(0.1)
        server.heal()
        kept.flush(20)
        assert kept.stats()["problem"] is None
        assert values(session, "a/w") == {"a/w": "1"}
        assert kept.stats()["refused"] == 0


def test_an_object_that_is_refused_costs_its_update_alone(session, server, bucket):
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        server.fail("PUT", "large", status=400, code="EntityTooLarge")
        session.put("a/large", "1")
        session.put("a/" + "n" * 1025, "1")
        session.put("a/x", "1", encoding="text/plain;\u00e4")
        session.put("a/good", "1")
        with pytest.raises(errors.NotDurable, match="3 were refused"):
            kept.flush(20)
        assert values(session, "a/**") == {"a/good": "1"}


def test_updates_wait_while_the_credentials_are_refused(session, server, bucket):
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        server.fail("PUT", "w", status=403, code="AccessDenied")
        session.put("a/w", "1")
        nodes.eventually(lambda: kept.stats()["problem"], "the failure is seen", within=25)
        server.heal()
        kept.flush(20)
        assert (values(session, "a/w"), kept.stats()["refused"]) == ({"a/w": "1"}, 0)


def test_a_lie_about_the_octets_is_found(session, server, bucket):
    with storage.Storage(session, "a/**", volume=bucket, strip_prefix="a") as kept:
        server.fail("PUT", "torn", torn=True, times=1)
        session.put("a/torn", "0123456789")
        session.put("a/whole", "1")
        kept.flush()
        (reply,) = session.get("a/torn")
        assert "differ from those that were stored" in reply.err.payload.to_string()
        assert values(session, "a/whole") == {"a/whole": "1"}


def test_a_bucket_that_is_not_there_is_named(session, server):
    volume = storage.S3("none-at-all", url=server.endpoint, access_key="key", secret_key="secret")
    assert "secret'" not in repr(volume)
    with pytest.raises(errors.StorageError, match="NoSuchBucket") as caught:
        storage.Storage(session, "a/**", volume=volume)
    assert caught.value.file == "s3://none-at-all"
