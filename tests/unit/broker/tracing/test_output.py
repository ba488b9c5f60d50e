"""The writer thread keeps batches that a failing disk does not accept, and the loop continues."""

import errno
import logging
import threading
import time

import pytest

from leveret.broker.tracing.output import TraceWriter
from leveret.broker.tracing.text_file import TextFile
from tests.patience import PATIENCE_SECONDS


class Disk:
    """A destination. error: raised by write. is_stuck: write waits until it is released."""

    def __init__(self):
        self.written = []
        self.error = None
        self.ticks = 0
        self.is_closed = False
        self.is_free = threading.Event()
        self.is_free.set()

    def write(self, batch):
        self.is_free.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        self.written.append(batch.data)

    def tick(self, time_us):
        self.ticks += 1
        if self.error is not None:
            raise self.error

    def close(self):
        self.is_closed = True


@pytest.fixture
def writer(monkeypatch):
    monkeypatch.setattr("leveret.broker.tracing.output.TICK_SECONDS", 0.02)
    made = TraceWriter(time.time)
    yield made
    made.stop()


def wait(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_batches_are_written_in_order_and_the_end_waits_for_them(writer):
    disk = Disk()
    output = writer.open("t", disk, 1000)
    for number in range(100):
        output.hand(b"%d" % number, number)
    output.close()
    writer.stop()
    assert disk.written == [b"%d" % number for number in range(100)]
    assert disk.is_closed
    assert output.waiting_bytes == 0


def test_a_stuck_disk_fills_the_output_and_it_has_room_again_after_it(writer):
    disk = Disk()
    disk.is_free.clear()
    output = writer.open("t", disk, 10)
    output.hand(b"12345", 1)
    assert not output.is_full
    output.hand(b"67890", 2)
    assert output.is_full
    assert not output.has_room_again
    disk.is_free.set()
    wait(lambda: output.has_room_again and not output.is_full)
    assert disk.written == [b"12345", b"67890"]


def test_what_fails_is_kept_reported_and_tried_again(writer, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("leveret"), "propagate", True)
    caplog.set_level(logging.INFO, "leveret.tracing")
    disk = Disk()
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    output = writer.open("orders", disk, 1000)
    output.hand(b"kept", 1)
    wait(lambda: "No space left" in output.problem)
    assert output.waiting_bytes == 4
    disk.error = None
    wait(lambda: not output.problem)
    wait(lambda: disk.written == [b"kept"])
    said = [line.message for line in caplog.records]
    assert len([line for line in said if "orders cannot be written" in line]) == 1
    assert "trace orders can be written again" in said


def test_one_output_in_trouble_does_not_hold_up_another(writer):
    bad, good = Disk(), Disk()
    bad.error = OSError(errno.EACCES, "Permission denied")
    first, second = writer.open("bad", bad, 1000), writer.open("good", good, 1000)
    first.hand(b"1", 1)
    second.hand(b"2", 1)
    wait(lambda: good.written == [b"2"])
    assert bad.written == []


def test_the_end_does_not_wait_for_ever(monkeypatch, caplog):
    monkeypatch.setattr("leveret.broker.tracing.output.STOP_SECONDS_MAX", 0.1)
    monkeypatch.setattr(logging.getLogger("leveret"), "propagate", True)
    writer, disk = TraceWriter(time.time), Disk()
    disk.is_free.clear()
    writer.open("slow", disk, 1000).hand(b"lost", 1)
    writer.stop()
    disk.is_free.set()
    assert "4 bytes could not be written before shutdown" in caplog.text


def test_destinations_look_after_their_files_though_nothing_is_written(writer):
    disk = Disk()
    writer.open("t", disk, 1000)
    wait(lambda: disk.ticks > 2)


def test_a_directory_that_cannot_be_made_is_reported_at_once_and_used_as_soon_as_it_can(
    writer, tmp_path
):
    place = tmp_path / "in the way"
    place.write_text("a file")
    output = writer.open("t", TextFile(place / "t.log"), 1000)
    wait(lambda: output.problem)
    output.hand(b"line\n", 1)
    place.unlink()
    wait(lambda: (place / "t.log").is_file() and (place / "t.log").read_text() == "line\n")


def test_a_removed_text_file_is_created_again(writer, tmp_path):
    path = tmp_path / "t.log"
    output = writer.open("t", TextFile(path), 1000)
    output.hand(b"one\n", 1)
    wait(lambda: output.waiting_bytes == 0)
    path.unlink()
    wait(path.exists)
    output.hand(b"two\n", 1)
    wait(lambda: output.waiting_bytes == 0)
    assert path.read_text() == "two\n"
