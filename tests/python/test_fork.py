"""Forks: the child cannot use what it inherited, a fresh session works there, the parent goes on.

Each case runs in a process of its own; its children report by exit code and are killed by an alarm when
they hang.
"""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

PRELUDE = """
import gc, json, os, signal, sys, threading, time, traceback
import zwire.zenoh as zenoh
from zwire.errors import UsageError


def in_child(work):
    '''The exit code of a child that does some work; negative when a signal ended it.'''
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        code = 99
        try:
            code = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def client(endpoint):
    return zenoh.open(zenoh.Config({"mode": "client", "connect/endpoints": [endpoint]}))


def eventually(condition, what):
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def put_in_fresh_session(key):
    with client(endpoint) as session:
        session.put(key, "x", congestion_control=zenoh.CongestionControl.BLOCK)


def received(subscriber, count):
    return sorted(f"{s.key_expr}" for s in (subscriber.recv(timeout=5) for _ in range(count)))


endpoint = sys.argv[1]
"""


@pytest.fixture
def hub():
    """A hub in a process that has nothing to do with the forks."""
    args = [sys.executable, "-m", "zwire", "router", "--listen", "tcp/127.0.0.1:0"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


def run(script, endpoint):
    args = [sys.executable, "-c", PRELUDE + textwrap.dedent(script), endpoint]
    done = subprocess.run(args, check=False, capture_output=True, text=True, timeout=25)
    assert done.returncode == 0, done.stderr
    return done


def test_a_child_before_any_use_opens_its_own_session(hub):
    run(
        """
        assert in_child(lambda: put_in_fresh_session("child")) == 0
        session = client(endpoint)
        subscriber = session.declare_subscriber("*")
        session.put("parent", "x")
        assert received(subscriber, 1) == ["parent"]
        """,
        hub,
    )


def test_a_child_after_use_opens_its_own_session_and_the_parent_goes_on(hub):
    run(
        """
        session = client(endpoint)
        subscriber = session.declare_subscriber("*")
        subscriber.wait_ready(5)
        session.put("before", "x")
        assert received(subscriber, 1) == ["before"]
        for _ in range(20):
            assert in_child(lambda: put_in_fresh_session("child")) == 0
        session.put("after", "x")
        assert received(subscriber, 21) == ["after"] + ["child"] * 20
        """,
        hub,
    )


def test_every_handle_raises_in_a_child(hub):
    run(
        """
        import pyarrow as pa
        from zwire.zenoh import ext

        session = client(endpoint)
        info = session.info
        liveliness = session.liveliness()
        publisher = session.declare_publisher("a")
        listener = publisher.declare_matching_listener()
        querier = session.declare_querier("a")
        subscriber = session.declare_subscriber("a")
        called = session.declare_subscriber("a", lambda sample: None)
        queryable = session.declare_queryable("a")
        token = liveliness.declare_token("t")
        alive = liveliness.declare_subscriber("t")
        replies = session.get("a")
        query = queryable.recv(timeout=5)
        handler = subscriber.handler
        declared = session.declare_keyexpr("b")
        batch = pa.record_batch({"key": ["a"], "payload": [b"x"]})
        number = ext.MissDetectionConfig(heartbeat=0.01)
        advanced = ext.declare_advanced_publisher(session, "v", sample_miss_detection=number)
        follower = ext.declare_advanced_subscriber(session, "v", history=ext.HistoryConfig())
        misses = follower.sample_miss_listener()

        uses = {
            "put": lambda: session.put("a", b""),
            "put_batch": lambda: session.put_batch(batch),
            "delete": lambda: session.delete("a"),
            "get": lambda: session.get("a"),
            "declare_subscriber": lambda: session.declare_subscriber("a"),
            "declare_publisher": lambda: session.declare_publisher("a"),
            "declare_queryable": lambda: session.declare_queryable("a"),
            "declare_querier": lambda: session.declare_querier("a"),
            "declare_keyexpr": lambda: session.declare_keyexpr("a"),
            "undeclare": lambda: session.undeclare(declared),
            "new_timestamp": lambda: session.new_timestamp(),
            "stats": lambda: session.stats(),
            "listening": lambda: session.listening(),
            "close": lambda: session.close(),
            "routers_zid": lambda: info.routers_zid(),
            "peers_zid": lambda: info.peers_zid(),
            "links": lambda: info.links(),
            "transports": lambda: info.transports(),
            "publisher.put": lambda: publisher.put(b""),
            "publisher.delete": lambda: publisher.delete(),
            "publisher.matching_status": lambda: publisher.matching_status,
            "publisher.undeclare": lambda: publisher.undeclare(),
            "listener.recv": lambda: listener.recv(timeout=5),
            "listener.try_recv": lambda: listener.try_recv(),
            "listener.undeclare": lambda: listener.undeclare(),
            "querier.get": lambda: querier.get(),
            "querier.undeclare": lambda: querier.undeclare(),
            "subscriber.recv": lambda: subscriber.recv(timeout=5),
            "subscriber.try_recv": lambda: subscriber.try_recv(),
            "subscriber.recv_many": lambda: subscriber.recv_many(5, timeout=5),
            "subscriber.recv_batch": lambda: subscriber.recv_batch(5, timeout=5),
            "subscriber iteration": lambda: next(iter(subscriber)),
            "subscriber.undeclare": lambda: subscriber.undeclare(),
            "subscriber with callback": lambda: called.undeclare(),
            "handler.recv": lambda: handler.recv(timeout=5),
            "len(handler)": lambda: len(handler),
            "queryable.recv": lambda: queryable.recv(timeout=5),
            "queryable.undeclare": lambda: queryable.undeclare(),
            "query.reply": lambda: query.reply("a", b""),
            "query.reply_del": lambda: query.reply_del("a"),
            "query.reply_err": lambda: query.reply_err(b""),
            "replies.recv": lambda: replies.recv(timeout=5),
            "replies iteration": lambda: list(replies),
            "token.undeclare": lambda: token.undeclare(),
            "liveliness.get": lambda: liveliness.get("t"),
            "liveliness.declare_token": lambda: liveliness.declare_token("t2"),
            "declare_advanced_publisher": lambda: ext.declare_advanced_publisher(session, "w"),
            "declare_advanced_subscriber": lambda: ext.declare_advanced_subscriber(session, "w"),
            "advanced publisher.put": lambda: advanced.put(b""),
            "advanced publisher.undeclare": lambda: advanced.undeclare(),
            "advanced subscriber.recv": lambda: follower.recv(timeout=5),
            "sample_miss_listener": lambda: follower.sample_miss_listener(),
            "detect_publishers": lambda: follower.detect_publishers(),
            "advanced subscriber.undeclare": lambda: follower.undeclare(),
            "misses.recv": lambda: misses.recv(timeout=5),
            "misses.undeclare": lambda: misses.undeclare(),
            "liveliness subscriber": lambda: alive.recv(timeout=5),
        }

        def child():
            wrong = []
            for name, use in uses.items():
                start = time.monotonic()
                try:
                    use()
                    wrong.append(f"{name} raised nothing")
                except UsageError as error:
                    if str(os.getppid()) not in str(error):
                        wrong.append(f"{name} does not name the process: {error}")
                except BaseException as error:
                    wrong.append(f"{name}: {error!r}")
                if time.monotonic() - start > 1:
                    wrong.append(f"{name} took its time")
            print(*wrong, sep="\\n", file=sys.stderr)
            return len(wrong)

        assert in_child(child) == 0
        # Nothing of it has reached the parent.
        query.reply("a", b"answer")
        query.drop()
        assert [bytes(reply.ok.payload) for reply in replies] == [b"answer"]
        publisher.put(b"x")
        assert subscriber.recv(timeout=5).payload == b"x"
        session.close()
        """,
        hub,
    )


def test_a_child_that_drops_everything_does_not_touch_the_links_of_the_parent(hub):
    run(
        """
        other = client(endpoint)
        alive = other.liveliness().declare_subscriber("t", history=True)
        session = client(endpoint)
        subscriber = session.declare_subscriber("*")
        subscriber.wait_ready(5)
        queryable = session.declare_queryable("q")
        token = session.liveliness().declare_token("t")
        assert alive.recv(timeout=5).kind == zenoh.SampleKind.PUT
        replies = other.get("q")
        query = queryable.recv(timeout=5)

        def child():
            global session, subscriber, queryable, token, other, alive, replies, query
            del session, subscriber, queryable, token, other, alive, replies, query
            gc.collect()
            put_in_fresh_session("child")

        def exits():
            # Through the interpreter's own end, with the sessions still open.
            sys.exit(0)

        def ends_as_usual():
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                sys.exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        for _ in range(5):
            assert in_child(child) == 0
        assert received(subscriber, 5) == ["child"] * 5
        query.reply("q", b"answer")
        query.drop()
        assert [bytes(reply.ok.payload) for reply in replies] == [b"answer"]
        other.put("after", b"x")
        assert received(subscriber, 1) == ["after"]
        assert alive.try_recv() is None, "the token is still alive"
        if (code := ends_as_usual()) != 0:
            sys.exit(f"a child that ends as usual: {code}")
        other.put("after", b"x")
        assert received(subscriber, 1) == ["after"]
        assert alive.try_recv() is None, "the token is still alive"
        """,
        hub,
    )


def test_a_fork_within_the_first_use_of_an_enumeration_by_another_thread(hub):
    """A child inherits the lock of an import that is under way, and no thread of it releases the lock."""
    run(
        """
        begun = threading.Event()

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "zwire.zenoh._enums":
                    begun.set()
                    time.sleep(0.2)

        sys.meta_path.insert(0, Slow())
        thread = threading.Thread(target=lambda: zenoh.SampleKind)
        thread.start()
        assert begun.wait(5)
        assert in_child(lambda: put_in_fresh_session("child")) == 0
        thread.join()
        """,
        hub,
    )


def test_forks_while_traffic_flows(hub):
    """A fork may find any lock of ours held by another thread; no child waits for one."""
    run(
        """
        session = client(endpoint)
        count = 0

        def hear(sample):
            global count
            count += 1

        subscriber = session.declare_subscriber("busy", hear)
        stop = threading.Event()
        sent = 0

        def send():
            global sent
            while not stop.is_set():
                session.put("busy", b"x" * 100, congestion_control=zenoh.CongestionControl.BLOCK)
                sent += 1

        thread = threading.Thread(target=send)
        thread.start()

        def child():
            try:
                session.put("busy", b"")
            except UsageError:
                pass
            else:
                return 1
            try:
                session.stats()
            except UsageError:
                pass
            else:
                return 2
            put_in_fresh_session("child")

        results = [in_child(child) for _ in range(20)]
        stop.set()
        thread.join(5)
        assert results == [0] * 20, results
        eventually(lambda: count == sent, f"{count} of {sent}")
        """,
        hub,
    )


@pytest.mark.long
def test_a_hundred_children_put_and_get_while_the_parent_goes_on(hub):
    run(
        """
        session = client(endpoint)
        subscriber = session.declare_subscriber("told/*")
        subscriber.wait_ready(5)
        queryable = session.declare_queryable("asked", lambda query: query.reply("asked", query.payload))
        queryable.wait_ready(5)

        def child():
            for use in (lambda: session.put("told/wrong", ""), subscriber.try_recv, queryable.undeclare):
                try:
                    use()
                except UsageError:
                    continue
                return 1
            with client(endpoint) as own:
                own.put("told/child", "x", congestion_control=zenoh.CongestionControl.BLOCK)
                said = [bytes(reply.ok.payload) for reply in own.get("asked", payload=b"?", timeout=5)]
            return 0 if said == [b"?"] else 2

        signal.alarm(24)
        for round_ in range(100):
            assert in_child(child) == 0, round_
            session.put("told/parent", "x")
            assert received(subscriber, 2) == ["told/child", "told/parent"], round_
        """,
        hub,
    )


POOL = (
    PRELUDE
    + """
def work(number):
    with client(endpoint) as own:
        own.put(f"pool/{number}", "x", congestion_control=zenoh.CongestionControl.BLOCK)
        return [bytes(reply.ok.payload) for reply in own.get("asked", payload=b"%d" % number, timeout=5)]


def main(method):
    import multiprocessing

    session = client(endpoint)
    subscriber = session.declare_subscriber("pool/*")
    subscriber.wait_ready(5)
    queryable = session.declare_queryable("asked", lambda query: query.reply("asked", query.payload))
    queryable.wait_ready(5)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(work, range(8), chunksize=1) == [[b"%d" % number] for number in range(8)]
        session.put("pool/parent", "x")
        assert received(subscriber, 9) == sorted([*(f"pool/{n}" for n in range(8)), "pool/parent"])


if __name__ == "__main__":
    signal.alarm(24)
    main(sys.argv[2])
"""
)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_beside_an_open_session(hub, tmp_path, method):
    """Of workers that import the program again, as it is usual."""
    program = tmp_path / "program.py"
    program.write_text(POOL)
    args = [sys.executable, program, hub, method]
    done = subprocess.run(args, check=False, capture_output=True, text=True, timeout=25)
    assert done.returncode == 0, done.stderr


def test_a_child_of_a_child(hub):
    run(
        """
        session = client(endpoint)
        subscriber = session.declare_subscriber("*")
        subscriber.wait_ready(5)

        def child():
            own = client(endpoint)
            own.put("child", "x")

            def grandchild():
                for inherited in (session, own):
                    try:
                        inherited.put("wrong", "x")
                    except UsageError:
                        continue
                    return 1
                put_in_fresh_session("grandchild")

            code = in_child(grandchild)
            own.put("child", "x")
            own.close()
            return code

        assert in_child(child) == 0
        assert received(subscriber, 3) == ["child", "child", "grandchild"]
        """,
        hub,
    )
