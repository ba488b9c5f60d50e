"""Closing: from which state an end leads to which, and when the socket goes."""

import pytest

from leveret.broker.amqp.errors import frame_error
from leveret.broker.protocols.amqp091.connection.closing import SILENT_CLOSE_MS, Closing
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.ending import CLOSE_TIMEOUT_MS, CLOSING, GONE, HANDSHAKE, RUNNING
from leveret.broker.protocols.tuning import Tuning
from tests.unit.broker.net.fakes import Socket, make_services

HANDSHAKE_MS = 10_000
HEARTBEAT_S = 10


class Connection:
    """A connection that notes when it gave back what it held."""

    name = "client"

    def __init__(self, services):
        self.tuning = Tuning(0, 0, HEARTBEAT_S)
        self.output = Output(services, lambda: None)
        self.is_readable = self.is_known = True
        self.is_released = False

    def may_send_fault(self, fault):
        return self.is_known

    def release(self):
        self.is_released = True


@pytest.fixture
def services():
    return make_services()


@pytest.fixture
def connection(services):
    return Connection(services)


@pytest.fixture
def socket():
    return Socket()


@pytest.fixture
def closing(services, connection, socket):
    closing = Closing(connection, services.clock)
    closing.connect(socket, HANDSHAKE_MS)
    return closing


def test_a_handshake_has_to_end_in_time(closing, services, socket):
    assert closing.state is HANDSHAKE
    services.clock.advance(HANDSHAKE_MS / 1000)
    assert (closing.state, socket.ended) == (GONE, "closed")


def test_an_open_connection_has_all_the_time_there_is(closing, services, socket):
    closing.open()
    services.clock.advance(HANDSHAKE_MS / 1000)
    assert (closing.state, socket.ended) == (RUNNING, "")


def test_after_an_error_the_client_has_a_heartbeat_to_answer(closing, connection, services, socket):
    closing.open()
    closing.fail(frame_error("bad"))
    assert (closing.state, connection.is_released) == (CLOSING, True)
    assert len(connection.output.pieces) == 1
    services.clock.advance(HEARTBEAT_S - 0.001)
    assert not socket.ended
    services.clock.advance(0.001)
    assert socket.ended == "aborted"


def test_a_client_without_heartbeats_has_longer(closing, connection, services, socket):
    connection.tuning = Tuning(0, 0, 0)
    closing.open()
    closing.answer()
    services.clock.advance(CLOSE_TIMEOUT_MS / 1000 - 0.001)
    assert not socket.ended
    services.clock.advance(0.001)
    assert socket.ended == "aborted"


def test_no_answer_that_could_not_be_read_is_awaited(closing, connection, services, socket):
    closing.open()
    connection.is_readable = False
    closing.fail(frame_error("no frame"))
    services.clock.advance(SILENT_CLOSE_MS / 1000)
    assert socket.ended == "aborted"


def test_a_failed_login_has_three_seconds_to_answer(closing, connection, services, socket):
    closing.fail(frame_error("no"))
    assert len(connection.output.pieces) == 1
    services.clock.advance(SILENT_CLOSE_MS / 1000)
    assert socket.ended == "aborted"


def test_without_a_login_the_error_is_not_told(closing, connection, services, socket):
    connection.is_known = False
    closing.fail(frame_error("bad"))
    assert (closing.state, connection.output.pieces) == (GONE, [])
    services.clock.advance(SILENT_CLOSE_MS / 1000)
    assert socket.ended == "aborted"


def test_an_operator_drops_a_connection_that_is_not_open(closing, connection, socket):
    closing.force("go away")
    assert (closing.state, socket.ended, connection.is_released) == (GONE, "closed", True)


def test_a_connection_fails_once(closing, connection):
    closing.open()
    closing.fail(frame_error("first"))
    closing.fail(frame_error("second"))
    assert len(connection.output.pieces) == 1
