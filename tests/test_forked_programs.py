"""Forked programs are processes of their own, as those that are started by a command are."""

import contextlib
import gc
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forked_programs import run_program, start_program
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port


@pytest.fixture
def start(tmp_path):
    """Starts a node; returned when it is ready."""
    nodes = []

    def one():
        path = tmp_path / f"log{len(nodes)}"
        with path.open("w") as log:
            node = start_program(
                "leveret", "serve", "--data-dir", path.with_suffix(".data"), "--port", free_port(),
                "--management-port", 0, "--prometheus-port", 0, output=log,
            )  # fmt: skip
        nodes.append(node)
        while " ready in" not in path.read_text():
            assert node.poll() is None
        return node

    yield one
    for node in nodes:
        node.kill()
        node.wait(PATIENCE_SECONDS)


def test_what_a_program_prints_and_its_exit_code():
    done = run_program("leveretctl", "no_such_command")
    assert (done.returncode, done.stdout) == (64, "")
    assert "no_such_command" in done.stderr
    assert run_program("leveretctl", "version").returncode == 0


def test_the_environment_is_the_one_that_is_given(tmp_path):
    environment = {**os.environ, "LEVERET_DATA_DIR": str(tmp_path / "nowhere")}
    assert "nowhere" in run_program("leveretctl", "status", environment=environment).stderr


def test_a_signal_is_the_exit_code(start):
    node = start()
    assert node.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        node.wait(0)
    node.kill()
    assert node.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert node.poll() == -signal.SIGKILL


def test_no_process_has_the_sockets_of_another(start):
    first, second = sockets(start().pid), sockets(start().pid)
    assert first
    assert first.isdisjoint(second | sockets("self"))


def test_a_program_that_is_forgotten_does_not_end_the_others(tmp_path):
    with (tmp_path / "output").open("w") as output:
        process = start_program("leveretctl", "version", output=output).pid
    gc.collect()
    assert run_program("leveretctl", "version").returncode == 0
    while Path(f"/proc/{process}").exists():
        assert run_program("leveretctl", "version").returncode == 0
    assert run_program("leveretctl", "version").returncode == 0


def sockets(process):
    """The sockets that a process has open."""
    opened = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        # A file may be closed while the list is read.
        with contextlib.suppress(FileNotFoundError):
            opened.add(str(file.readlink()))
    return {one for one in opened if one.startswith("socket:")}
