"""The lock on a data directory."""

import os
import subprocess
import sys

import pytest

from storage.data_directory import (
    LOCK_FILE,
    DataDirectoryError,
    DataDirectoryInUse,
    DataDirectoryLock,
)

HOLDER = """
import sys
from pathlib import Path
from storage.data_directory import DataDirectoryLock
lock = DataDirectoryLock(Path(sys.argv[1]))
lock.acquire()
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_directory_that_is_missing_is_made(tmp_path):
    directory = tmp_path / "some" / "where"
    lock = DataDirectoryLock(directory)
    lock.acquire()
    assert (directory / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.release()


def test_only_one_holds_the_lock(tmp_path):
    first, second = DataDirectoryLock(tmp_path), DataDirectoryLock(tmp_path)
    first.acquire()
    with pytest.raises(DataDirectoryInUse) as caught:
        second.acquire()
    assert str(tmp_path) in str(caught.value)
    assert f"process {os.getpid()};" in str(caught.value)
    first.release()
    second.acquire()
    second.release()


def test_releasing_what_is_not_held_does_nothing(tmp_path):
    lock = DataDirectoryLock(tmp_path)
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()
    lock.acquire()
    lock.release()


def test_directories_have_locks_of_their_own(tmp_path):
    locks = [DataDirectoryLock(tmp_path / name) for name in "ab"]
    for lock in locks:
        lock.acquire()
    for lock in locks:
        lock.release()


def test_a_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(DataDirectoryError, match="file cannot be used"):
        DataDirectoryLock(tmp_path / "file").acquire()


def test_the_lock_ends_with_the_process_that_holds_it(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        lock = DataDirectoryLock(tmp_path)
        with pytest.raises(DataDirectoryInUse, match=f"process {holder.pid};"):
            lock.acquire()
        holder.kill()
        holder.wait()
        lock.acquire()
        lock.release()
