"""`leveretctl log_tail` and `log_tail_stream`, with a log file and without one."""

import itertools
import subprocess
import sys
import threading

import pytest

from leveret.mgmt.ctl.log_lines import _from_file
from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode

CONFIGURATIONS = {
    "a relative log file": "log.file = node.log",
    "no log file": "",
    "a log file of JSON": "log.file = node.log\nlog.file.formatter = json",
}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def logging_node(request, tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("logging"), CONFIGURATIONS[request.param])
    yield served
    served.stop()


@pytest.fixture
def ctl(logging_node):
    return Ctl(logging_node)


def test_the_last_lines_are_printed(ctl, logging_node):
    for number in range(3):
        ctl("add_user", f"tail{number}", "secret")
    banner, *lines = ctl("log_tail", "-N", "2").splitlines()
    assert banner == f"Last 2 log lines on node {logging_node.name} ..."
    assert len(lines) == 2
    assert "'tail2'" in lines[-1]
    assert ctl("-q", "log_tail", "--number", "3").splitlines()[1:] == lines
    assert "tail0" in ctl("log_tail")
    assert ctl("-q", "log_tail", "-N", "0") == ""


def test_new_lines_are_streamed(ctl, logging_node):
    command = [sys.executable, "-m", "leveret.mgmt.ctl.leveretctl", "--data-dir",
               logging_node.data_dir, "log_tail_stream"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stream:
        lines = []
        reading = threading.Thread(target=lambda: lines.extend(stream.stdout))
        reading.start()
        logging_node.wait_until(lambda: lines, "the banner is printed")
        numbers = itertools.count()

        def is_shown():
            """The stream may begin after the first user was created."""
            ctl("add_user", f"stream{next(numbers)}", "secret")
            return any("user 'stream" in line for line in lines)

        logging_node.wait_until(is_shown, "a new line is printed")
        stream.terminate()
        reading.join()
    assert lines[0] == f"Streaming logs from node {logging_node.name} indefinitely ...\n"


def test_a_stream_ends_after_its_duration(ctl):
    assert ctl("-q", "log_tail_stream", "--duration", "0") == ""


def test_a_stream_goes_on_in_the_new_file_after_a_rotation(tmp_path):
    path = tmp_path / "node.log"
    path.write_text("old\n")
    lines = _from_file(path)
    assert next(lines) == []
    path.open("a").write("one\n")
    assert next(lines) == ["one"]
    path.rename(tmp_path / "node.log.0")
    assert next(lines) == []
    path.write_text("two\n")
    assert next(lines) == ["two"]
