"""Shovels whose far side refuses, breaks the protocol, says nothing, or is no broker at all: the
status says why, and no message is lost.
"""

import socket
import threading
from contextlib import suppress

import pytest
from pamqp import commands, frame, header, heartbeat

from tests.mgmt.far_side import (
    FarSide,
    closing_channel,
    closing_connection,
    dropping,
    sending,
    silent,
)
from tests.mgmt.test_shovels import local, publish, ready, shovel, wait_for_state

QUICK = "heartbeat=1&connection_timeout=1000"
CHANNEL_CODES = [311, 313, 403, 404, 405, 406, 999]
CONNECTION_CODES = [320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541]


@pytest.fixture
def far():
    with FarSide() as made:
        yield made


@pytest.fixture
def source(channel):
    """A queue with messages, none of which may be lost."""
    publish(channel, "from", [b"1", b"2", b"3"])
    return "from"


def start(node, vhost, far_uri, **more):
    """Set a shovel to the far side, which is tried once."""
    value = {
        "src_uri": local(vhost), "src_queue": "from", "dest_uri": far_uri, "dest_queue": "to",
        "reconnect_delay": 3600,
    }  # fmt: skip
    shovel(node, vhost, **{**value, **more})


def reason(node, vhost):
    wait_for_state(node, vhost, "terminated")
    (shown,) = node.get(f"shovels/{vhost}")
    return shown["reason"]


def wait_until_all_are_back(node, vhost):
    node.wait_until(lambda: ready(node, vhost, "from") == 3, "all are back")


@pytest.mark.parametrize("code", CHANNEL_CODES)
def test_a_channel_that_is_closed_because_of_a_message(node, vhost, source, far, code):
    far.answers[commands.Basic.Publish] = closing_channel(code, "WHY - this")
    start(node, vhost, far.uri)
    assert reason(node, vhost) == f"the destination was lost: {code}, WHY - this"
    wait_until_all_are_back(node, vhost)


@pytest.mark.parametrize("code", CONNECTION_CODES)
def test_a_connection_that_is_closed_because_of_a_message(node, vhost, source, far, code):
    far.answers[commands.Basic.Publish] = closing_connection(code, "WHY - this")
    start(node, vhost, far.uri)
    assert reason(node, vhost) == f"the destination was lost: {code}, WHY - this"
    wait_until_all_are_back(node, vhost)


@pytest.mark.parametrize(
    ("method", "end"),
    [
        (commands.Queue.Declare, "destination"),
        (commands.Confirm.Select, "destination"),
        (commands.Queue.Declare, "source"),
        (commands.Basic.Consume, "source"),
    ],
)
def test_an_end_that_refuses_what_the_shovel_needs(node, vhost, source, far, method, end):
    def wants():
        ends = {"src_uri": far.uri, "dest_uri": local(vhost)} if end == "source" else {}
        start(node, vhost, far.uri, **ends)

    far.answers[method] = closing_channel(403, "ACCESS_REFUSED - no")
    wants()
    assert reason(node, vhost) == f"the {end} refuses: 403, ACCESS_REFUSED - no"
    far.answers[method] = closing_connection(0, "")
    wants()
    wait_for_reason(node, vhost, f"the {end} was lost: no reason is given")


def wait_for_reason(node, vhost, wanted):
    node.wait_until(lambda: reason(node, vhost) == wanted, wanted)


@pytest.mark.parametrize(
    ("method", "end", "said"),
    [
        (commands.Connection.StartOk, "", "does not answer the login within 1 s"),
        (commands.Connection.Open, "", "does not answer connection.open within 1 s"),
        (commands.Channel.Open, "destination", "does not answer channel.open within 1 s"),
        (commands.Queue.Declare, "destination", "does not answer queue.declare within 1 s"),
        (commands.Confirm.Select, "destination", "does not answer confirm.select within 1 s"),
        (commands.Basic.Consume, "source", "does not answer basic.consume within 1 s"),
    ],
)
def test_a_far_side_that_does_not_answer(node, vhost, source, far, method, end, said):
    far.answers[method] = silent
    ends = {"src_uri": f"{far.uri}?{QUICK}", "dest_uri": local(vhost)} if end == "source" else {}
    start(node, vhost, f"{far.uri}?{QUICK}", **ends)
    lost = f"the {end} was lost: the server {said}" if end else said
    assert reason(node, vhost).endswith(lost)


def test_a_far_side_that_falls_silent(node, vhost, source, far):
    far.answers[commands.Basic.Publish] = far.answers[heartbeat.Heartbeat] = silent
    start(node, vhost, f"{far.uri}?{QUICK}")
    said = "the server has sent nothing, not even a heartbeat, for 2 s"
    assert reason(node, vhost) == f"the destination was lost: {said}"
    wait_until_all_are_back(node, vhost)


def test_a_far_side_that_closes_the_socket(node, vhost, source, far):
    far.answers[commands.Basic.Publish] = dropping
    start(node, vhost, far.uri)
    assert reason(node, vhost).startswith("the destination was lost: the server closed the socket")
    wait_until_all_are_back(node, vhost)


DAMAGED = {
    "zeros": (bytes(100), "501, FRAME_ERROR"),
    "another protocol": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "501, FRAME_ERROR"),
    "a wrong end": (b"\1\0\1\0\0\0\4abcdX", "501, FRAME_ERROR"),
    "a huge frame": (b"\1\0\1\x7f\xff\xff\xff", "501, FRAME_ERROR"),
    "a method that there is not": (b"\1\0\1\0\0\0\4\0\x0a\xff\xff\xce", "501, FRAME_ERROR"),
    "a channel that is not open": (frame.marshal(commands.Basic.Ack(1), 77), "504, CHANNEL_ERROR"),
    "an answer to nothing": (
        frame.marshal(commands.Queue.DeclareOk("x", 0, 0), 1), "503, COMMAND_INVALID",
    ),
    "content without a method": (
        frame.marshal(header.ContentHeader(0, 1, commands.Basic.Properties()), 1),
        "505, UNEXPECTED_FRAME",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_frames(node, vhost, source, far, what):
    data, said = DAMAGED[what]
    far.answers[commands.Basic.Publish] = sending(data)
    start(node, vhost, far.uri)
    assert reason(node, vhost).startswith(f"the destination was lost: {said}")
    wait_until_all_are_back(node, vhost)
    assert "Traceback" not in node.log


def test_a_destination_that_blocks_the_connection(node, vhost, source, far):
    def blocking(session, channel, method):
        session.send(0, commands.Connection.Blocked("low on memory"))
        far.answers.clear()
        session.publish(channel, method)

    far.answers[commands.Basic.Publish] = blocking
    start(node, vhost, far.uri, src_prefetch_count=1)
    wait_for_state(node, vhost, "blocked")
    (session,) = far.sessions
    assert len(session.bodies) == 1
    session.send(0, commands.Connection.Unblocked())
    wait_for_state(node, vhost, "running")
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "all are moved")
    assert session.bodies == [b"1", b"2", b"3"]


class OtherServer:
    """A server of another protocol. greets: what it says at first."""

    def __init__(self, greets):
        self._greets = greets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    connection.sendall(self._greets)
                    connection.recv(100)


@pytest.mark.parametrize(
    ("greets", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "does not speak AMQP; it answers with b'SSH-2.0-OpenSSH"),
        (b"AMQP\0\1\0\0", "does not speak AMQP 0-9-1; it answers with 1.0.0"),
        (b"\x15\3\3\0\2\2\x28", "speaks TLS: connect with amqps://"),
    ],
)
def test_a_port_of_another_protocol(node, vhost, source, greets, said):
    with OtherServer(greets) as other:
        start(node, vhost, f"amqp://127.0.0.1:{other.port}")
        assert said in reason(node, vhost)
        node.delete(f"parameters/shovel/{vhost}/s")
        wait_for_state(node, vhost, None)
        start(node, vhost, f"amqps://127.0.0.1:{other.port}")
        assert "TLS fails: " in reason(node, vhost)


def test_the_port_of_a_web_server(node, vhost, source):
    start(node, vhost, f"amqp://127.0.0.1:{node.http_port}")
    assert "does not speak AMQP; it answers with b'HTTP/" in reason(node, vhost)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("no-such-host.invalid", "cannot be reached: "),
        ("a..b", "the name of the host is not valid: "),
        ("x" * 300, "the name of the host is not valid: "),
    ],
)
def test_a_host_that_there_is_not(node, vhost, source, host, said):
    start(node, vhost, f"amqp://{host}")
    shown = reason(node, vhost)
    assert shown.startswith(f"failed to connect to destination: amqp://{host}: ")
    assert said in shown
    assert "Traceback" not in node.log


def test_a_wrong_password_of_this_node_itself(node, vhost, source):
    start(node, vhost, f"amqp://guest:secret@/{vhost}")
    assert "refuses the login of user 'guest'" in reason(node, vhost)
    assert "secret" not in node.log
