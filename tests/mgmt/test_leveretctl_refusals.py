"""`leveretctl` without a connection to the node prints one line and rabbitmqctl's exit code."""

import asyncio
import os
import socket
import stat
from threading import Thread

import pytest

from leveret.broker.config import Config
from leveret.mgmt.ctl.client import _SocketConnection
from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.management import Management
from leveret.mgmt.running_node import RunningNode

UNAVAILABLE, TIMED_OUT, NO_PERMISSION, USAGE = 69, 75, 77, 64


@pytest.fixture
def fails(capsys):
    """Runs a command that must fail; returns the exit code and its one line of error output."""

    def run(*arguments):
        code = main([str(one) for one in arguments])
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        return code, lines[0]

    return run


@pytest.fixture
def dead_socket(tmp_path):
    """The socket that a killed node leaves behind."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.socket"))
    return tmp_path


def test_no_node(fails, tmp_path):
    code, text = fails("--data-dir", tmp_path, "list_queues")
    assert (code, f"the socket {tmp_path}/control.socket does not exist" in text) == (
        UNAVAILABLE,
        True,
    )
    code, text = fails("--data-dir", tmp_path, "-n", "rabbit@here", "list_queues")
    assert text.startswith("Error: unable to perform an operation on node 'rabbit@here': ")


def test_a_socket_without_a_listener(fails, dead_socket):
    code, text = fails("--data-dir", dead_socket, "ping")
    assert (code, "nothing is listening at" in text) == (UNAVAILABLE, True)


def test_a_file_that_is_not_a_socket(fails, tmp_path):
    (tmp_path / "control.socket").write_text("")
    assert fails("--data-dir", tmp_path, "ping")[0] == UNAVAILABLE


def test_another_node_than_the_named_one(fails, node):
    code, text = fails("--data-dir", node.data_dir, "-n", "other@host", "list_queues")
    assert (code, f"is '{node.name}'" in text) == (UNAVAILABLE, True)
    name = node.name.partition("@")[0]
    assert main(["--data-dir", str(node.data_dir), "-n", name, "list_queues"]) == 0


def test_a_socket_of_another_user(fails, node, monkeypatch):
    own_id = os.geteuid()
    monkeypatch.setattr("leveret.mgmt.ctl.client.os.geteuid", lambda: own_id + 12345)
    code, text = fails("--data-dir", node.data_dir, "add_user", "anna", "secret")
    assert (code, f"belongs to user id {own_id}" in text) == (NO_PERMISSION, True)


def test_root_may_use_the_socket_of_any_user(node, monkeypatch):
    monkeypatch.setattr("leveret.mgmt.ctl.client.os.geteuid", lambda: 0)
    assert main(["--data-dir", str(node.data_dir), "ping"]) == 0


def test_a_socket_that_may_not_be_opened(fails, node, monkeypatch):
    def refuse(_connection):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_SocketConnection, "connect", refuse)
    code, text = fails("--data-dir", node.data_dir, "ping")
    assert (code, "this user may not open" in text) == (NO_PERMISSION, True)


def test_only_the_nodes_user_may_open_the_socket(node):
    mode = os.stat(node.data_dir / "control.socket").st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_node_that_does_not_answer_in_time(fails, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "control.socket"))
        silent.listen()
        code, text = fails("--data-dir", tmp_path, "--timeout", "1", "-n", "n@h", "list_queues")
    assert (code, text) == (
        TIMED_OUT, "Error: operation list_queues on node n@h timed out. Timeout value used: 1000"
    )  # fmt: skip


def test_a_server_that_is_not_a_node(fails, tmp_path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "control.socket"))
        other.listen()

        def answer():
            one, _ = other.accept()
            one.recv(1000)
            one.sendall(b"SSH-2.0-OpenSSH\r\n")
            one.close()

        thread = Thread(target=answer)
        thread.start()
        assert fails("--data-dir", tmp_path, "ping")[0] == UNAVAILABLE
        thread.join()


async def test_a_node_that_is_booting(tmp_path, capsys):
    may_start = asyncio.Event()

    class SlowBroker:
        async def start(self):
            await may_start.wait()

    node = RunningNode(Config(node_name="slow@localhost"), SlowBroker, tmp_path)
    management = Management(node)
    await management.start_control()
    booting = asyncio.create_task(node.start_broker())
    await asyncio.sleep(0)

    async def ctl(*arguments):
        code = await asyncio.to_thread(main, ["--data-dir", str(tmp_path), *arguments])
        return code, capsys.readouterr()

    try:
        assert (await ctl("ping"))[0] == 0
        assert "slow@localhost is booting" in (await ctl("is_booting"))[1].out
        assert (await ctl("check_running"))[0] == UNAVAILABLE
        code, printed = await ctl("list_queues")
        assert (code, "is still booting" in printed.err) == (USAGE, True)
        assert (await ctl("await_startup", "--timeout", "0"))[0] == UNAVAILABLE
    finally:
        booting.cancel()
        await management.stop()
