"""A storage on a full disk, for real: a small one in a namespace of its own; and on one that is read-only."""

import os
import subprocess

import pytest

from disks import run_on_small_disk
from zwire import errors, storage

PROGRAM = """
import sys, time
from pathlib import Path
from zwire import errors, storage, zenoh

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(4_000_000))
session = zenoh.open({"mode": "peer", "scouting/multicast/enabled": False})
kept = storage.Storage(session, "k/**", volume=VOLUME)
end = time.monotonic() + 20
sent = safe = 0


def until(condition):
    while not condition():
        assert time.monotonic() < end, kept.stats()
        time.sleep(0.005)


def payload(number):
    return b"%06d" % number + bytes(2000)


def check(count):
    found = {}
    for reply in session.get("k/**"):
        assert reply.ok, reply.err.payload.to_string()
        number = int(str(reply.ok.key_expr)[2:])
        assert reply.ok.payload.to_bytes() == payload(number)
        found[number] = True
    assert all(number in found for number in range(count)), (len(found), count)
    return len(found)


while kept.stats()["problem"] is None:
    for _ in range(50):
        session.put(f"k/{sent}", payload(sent))
        sent += 1
    try:
        kept.flush(2.0)
        safe = sent
    except errors.NotDurable as error:
        assert "No space left on device" in str(error), error
assert "No space left on device" in kept.stats()["problem"], kept.stats()
assert safe > 100
# The session goes on, and so do queries: with everything that was confirmed.
check(safe)
for _ in range(100):
    session.put(f"k/{sent}", payload(sent))
    sent += 1
ballast.unlink()
until(lambda: kept.stats()["problem"] is None)
kept.flush(10.0)
stats = kept.stats()
assert stats["dropped"] == stats["refused"] == stats["lost"] == 0, stats
assert stats["failures"] > 0
assert check(sent) == sent
kept.close()
kept = storage.Storage(session, "k/**", volume=VOLUME)
assert check(sent) == sent
kept.close()
"""

VOLUMES = {
    "disk": "storage.Disk(disk / 'storage')",
    "history": "storage.History(disk / 'storage')",
    "files": "storage.Files(disk / 'storage')",
}


@pytest.mark.parametrize("volume", VOLUMES)
def test_a_full_disk_loses_nothing(tmp_path, volume):
    run_on_small_disk(PROGRAM.replace("VOLUME", VOLUMES[volume]), tmp_path, "12m")


def test_a_folder_that_cannot_be_written_is_named(session, tmp_path):
    folder = tmp_path / "storage"
    with storage.Storage(session, "a/**", volume=storage.Disk(folder)):
        session.put("a/x", "1")
    file = folder / "storage.redb"
    if os.geteuid() == 0:
        # Permissions do not bind root; the attribute does, where the file system has it.
        done = subprocess.run(["chattr", "+i", str(file)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"a file that root cannot write needs chattr +i: {done.stderr.strip()}")
    else:
        file.chmod(0o400)
    try:
        with pytest.raises(errors.StorageError, match=r"storage\.redb: .*(denied|not permitted)") as caught:
            storage.Storage(session, "a/**", volume=storage.Disk(folder))
        assert caught.value.file == str(file)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["chattr", "-i", str(file)], check=True)
