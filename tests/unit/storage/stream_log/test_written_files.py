"""The files of the last segment stay open between writes; others are closed."""

import pytest

from leveret.storage.disk.disk import Disk
from leveret.storage.stream_log.segment_files import StreamFiles
from leveret.storage.stream_log.written_files import WrittenFiles
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest


class OpenCountingDisk(Disk):
    """opened: the names of the files that were opened. is_open: those that still are."""

    def __init__(self):
        super().__init__()
        self.opened, self.is_open = [], {}

    def open(self, path):
        self.opened.append(path.name)
        descriptor = super().open(path)
        self.is_open[descriptor] = path.name
        return descriptor

    def close(self, descriptor):
        self.is_open.pop(descriptor, None)
        super().close(descriptor)


class KeptStream(StreamUnderTest):
    """A stream whose thread keeps files open."""

    def __init__(self, directory, files):
        self._files = files
        super().__init__(directory, files._disk)

    def write(self):
        StreamFiles(self.directory, self.disk, self._files).carry_out(self.log.take_steps())
        self.log.written()


def names(number):
    return [f"{number:020}.segment", f"{number:020}.index"]


@pytest.fixture
def disk():
    return OpenCountingDisk()


def test_the_files_of_a_segment_are_opened_once(disk, tmp_path):
    stream = KeptStream(tmp_path / "1", WrittenFiles(disk))
    for body in (b"one", b"two", b"three"):
        stream.publish(body)
        stream.write()
    assert disk.opened == names(0)


def test_a_segment_that_has_ended_is_closed(disk, tmp_path):
    stream = KeptStream(tmp_path / "1", WrittenFiles(disk, 10))
    stream.publish(b"one")
    stream.write()
    stream.log.begin_segment(2_000)
    stream.publish(b"two")
    stream.write()
    assert [*disk.is_open.values()] == names(1)
    assert stream.restart().messages() == {0: b"one", 1: b"two"}


def test_segments_that_are_removed_are_closed(disk, tmp_path):
    stream = KeptStream(tmp_path / "1", WrittenFiles(disk, 10))
    stream.publish(b"one")
    stream.write()
    stream.log.reset(stream.log.head)
    stream.write()
    assert not disk.is_open
    stream.publish(b"two")
    stream.write()
    assert stream.restart().messages() == {0: b"two"}


def test_the_files_that_were_used_longest_ago_are_closed(disk, tmp_path):
    files = WrittenFiles(disk, 4)
    streams = [KeptStream(tmp_path / str(number), files) for number in range(3)]
    for stream in (streams[0], streams[1], streams[0], streams[2], streams[0]):
        stream.publish(b"one")
        stream.write()
    assert disk.opened == [*names(0), *names(0), *names(0)]
    assert len(disk.is_open) == 4
    files.close_all()
    assert not disk.is_open
