"""The lock on a data directory."""

import errno
import os
import subprocess
import sys

import pytest

from leveret.storage.disk.data_directory import (
    LOCK_FILE,
    DataDirectoryError,
    DataDirectoryInUse,
    DataDirectoryLock,
)
from tests.storage.power_cut_disk import PowerCutDisk
from tests.storage.unlucky import Unlucky

HOLDER = """
import sys
from pathlib import Path
from leveret.storage.disk.data_directory import DataDirectoryLock
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


def test_a_directory_that_was_made_survives_a_power_cut(tmp_path):
    directory = tmp_path / "some" / "where"
    disk = PowerCutDisk(Unlucky())
    lock = DataDirectoryLock(directory, disk)
    lock.acquire()
    lock.release()
    disk.cut()
    assert directory.is_dir()


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


def test_releasing_a_directory_that_is_not_held_does_nothing(tmp_path):
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


def test_the_file_of_a_dead_server_is_no_obstacle(tmp_path):
    (tmp_path / LOCK_FILE).write_text("123456789 and more than a number\n")
    lock = DataDirectoryLock(tmp_path)
    lock.acquire()
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.release()


def test_the_error_for_a_directory_in_use(tmp_path):
    first = DataDirectoryLock(tmp_path)
    first.acquire()
    with pytest.raises(DataDirectoryInUse) as caught:
        DataDirectoryLock(tmp_path).acquire()
    first.release()
    assert str(caught.value) == (
        f"the data directory {tmp_path} is in use by another server, process {os.getpid()}; "
        "stop that one or choose another --data-dir"
    )


def test_the_error_for_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(DataDirectoryError) as caught:
        DataDirectoryLock(tmp_path / "file" / "data").acquire()
    assert str(caught.value) == (
        f"the data directory {tmp_path}/file/data cannot be used: "
        f"cannot create {tmp_path}/file/data: Not a directory; "
        "check that it may be written, or choose another --data-dir"
    )


def test_the_error_for_a_directory_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(DataDirectoryError, match="cannot be used: Permission denied"):
        DataDirectoryLock(tmp_path).acquire()
    tmp_path.chmod(0o700)


def test_a_lock_that_could_not_be_written_is_not_held(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    lock = DataDirectoryLock(tmp_path)
    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(os, "pwrite", refuse)
        with pytest.raises(DataDirectoryError, match="Input/output error"):
            lock.acquire()
    other = DataDirectoryLock(tmp_path)
    other.acquire()
    other.release()


def test_a_lock_is_held_though_a_full_disk_has_no_room_for_its_holder(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    lock = DataDirectoryLock(tmp_path)
    lock.acquire()
    with pytest.raises(DataDirectoryInUse, match="process unknown"):
        DataDirectoryLock(tmp_path).acquire()
    lock.release()


def test_only_the_owner_may_read_the_directory(tmp_path):
    directory = tmp_path / "data"
    lock = DataDirectoryLock(directory)
    lock.acquire()
    lock.release()
    assert directory.stat().st_mode & 0o007 == 0
    assert (directory / LOCK_FILE).stat().st_mode & 0o007 == 0
