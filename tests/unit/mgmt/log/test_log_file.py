"""The log file: rotated by size and date, compressed, and made again after it was moved away."""

import gzip
import logging
import os
from datetime import datetime, timedelta

import pytest

from leveret.broker.config.log_settings import RotationSettings
from leveret.mgmt.log.log_file import RotatedFile


def record(text):
    return logging.LogRecord("leveret", logging.INFO, "", 0, text, (), None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node.log"


def write(path, rotation, *texts):
    file = RotatedFile(path, rotation)
    for text in texts:
        file.emit(record(text))
    file.close()


def contents(path):
    """The files' contents by the ends of their names."""
    found = {}
    for file in path.parent.iterdir():
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        found[file.name.removeprefix(path.name)] = text.decode()
    return found


def test_by_default_it_grows(path):
    write(path, RotationSettings(), "one", "two")
    write(path, RotationSettings(), "three")
    assert contents(path) == {"": "one\ntwo\nthree\n"}


def test_a_long_file_is_renamed_and_the_oldest_removed(path):
    write(path, RotationSettings(size_bytes=7, count=2), *"abcdefghij")
    assert contents(path) == {".1": "a\nb\nc\nd\n", ".0": "e\nf\ng\nh\n", "": "i\nj\n"}
    write(path, RotationSettings(size_bytes=7, count=2), "k", "l", "m")
    assert contents(path) == {".1": "e\nf\ng\nh\n", ".0": "i\nj\nk\nl\n", "": "m\n"}


def test_without_a_count_only_the_newest_is_kept(path):
    write(path, RotationSettings(size_bytes=3), "a", "b", "c")
    assert contents(path) == {"": "c\n"}


def test_older_files_are_compressed(path):
    write(path, RotationSettings(size_bytes=3, count=2, compress=True), *"abcdefg")
    assert contents(path) == {".1.gz": "c\nd\n", ".0.gz": "e\nf\n", "": "g\n"}


def test_a_file_of_yesterday_is_renamed_before_the_first_line(path):
    path.write_text("yesterday\n")
    yesterday = (datetime.now() - timedelta(days=1)).timestamp()
    os.utime(path, (yesterday, yesterday))
    write(path, RotationSettings(date="$D0", count=1), "today", "later")
    assert contents(path) == {".0": "yesterday\n", "": "today\nlater\n"}


def test_after_it_was_moved_away_a_new_one_is_begun(path):
    file = RotatedFile(path, RotationSettings())
    file.emit(record("before"))
    path.rename(path.with_suffix(".moved"))
    file.emit(record("behind"))
    file.close()
    assert contents(path.with_suffix("")) == {".moved": "before\n", ".log": "behind\n"}


def test_a_line_that_cannot_be_written_is_told_and_nothing_fails(path, capsys):
    file = RotatedFile(path, RotationSettings(size_bytes=3, count=1))
    file.emit(record("a"))
    os.mkdir(f"{path}.0")
    file.emit(record("b"))
    assert f"the log file {path} cannot be written" in capsys.readouterr().err
