"""The kernel knows whether the machine at the other end of a socket acknowledges segments."""

import asyncio
import socket

import pytest

from leveret.broker.net import peer_answers


class Transport:
    """A transport with this socket."""

    def __init__(self, found):
        self._found = found

    def get_extra_info(self, name):
        return self._found


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    yield near, far
    near.close()
    far.close()


def test_a_machine_acknowledges_also_what_its_program_does_not_read(pair):
    near, _ = pair
    near.setblocking(False)
    near.send(b"x" * 1_000_000)
    assert not peer_answers.is_unanswered(Transport(near), 0)


@pytest.mark.parametrize(
    ("repetition_us", "unacknowledged", "last_ack_ms", "expected"),
    [
        (800_000, 3, 1500, True), (800_000, 3, 900, False), (800_000, 0, 1500, False),
        # It answers repetitions that are 6.4 s apart.
        (6_400_000, 3, 1500, False),
    ],
    ids=["silent", "not yet", "acknowledged", "does not read"],
)  # fmt: skip
def test_a_machine_that_acknowledges_nothing_is_gone(
    pair, monkeypatch, repetition_us, unacknowledged, last_ack_ms, expected
):
    told = peer_answers._FIELDS.pack(repetition_us, unacknowledged, last_ack_ms)
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: told)
    assert peer_answers.is_unanswered(Transport(pair[0]), 1000) is expected


def test_nothing_is_known_of_other_sockets():
    one, other = socket.socketpair(socket.AF_UNIX)
    assert not peer_answers.is_unanswered(Transport(one), 0)
    assert not peer_answers.is_unanswered(Transport(None), 0)
    one.close()
    other.close()
    assert not peer_answers.is_unanswered(Transport(one), 0)


def test_a_transport_of_the_event_loop_has_such_a_socket():
    async def connect():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        found = peer_answers.is_unanswered(writer.transport, 0)
        writer.close()
        server.close()
        return found

    assert asyncio.run(connect()) is False
