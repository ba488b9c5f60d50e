"""Output: gathered over a round, joined if it is small, and held back from a slow client."""

import pytest
from pamqp import commands

from leveret.broker.net.output import LARGE_PIECE_BYTES, Output
from tests.unit.broker.net.fakes import Socket, make_services


@pytest.fixture
def services():
    return make_services()


@pytest.fixture
def caught_up():
    """When the client caught up."""
    return []


@pytest.fixture
def socket():
    return Socket()


@pytest.fixture
def output(services, socket, caught_up):
    output = Output(services, lambda: caught_up.append(True))
    output.connect(socket)
    return output


def test_what_is_sent_in_a_round_is_written_at_its_end(output, socket, services):
    output.send(0, commands.Connection.CloseOk)
    output.send_heartbeat()
    assert not socket.written
    services.turns.end_round()
    assert len(socket.written) == 1
    assert (output.writes, output.bytes_out) == (1, len(socket.written[0]))


def test_large_pieces_are_not_joined(output, socket, services):
    pieces = [b"frame", bytes(2 * LARGE_PIECE_BYTES + 1)]
    output.pieces += pieces
    output.gathered_bytes += sum(map(len, pieces))
    output.flush_later()
    services.turns.end_round()
    assert socket.written == pieces


def test_output_of_one_round_that_was_too_much_is_over_with_the_round(output, services, caught_up):
    output.pieces.append(b"much")
    output.is_congested = True
    output.flush_later()
    services.turns.end_round()
    assert not output.is_congested
    assert caught_up


def test_a_client_that_does_not_keep_up_is_congested_until_it_does(output, services, caught_up):
    output.pause()
    output.send_heartbeat()
    services.turns.end_round()
    assert output.is_congested
    assert not caught_up
    output.resume()
    assert not output.is_congested
    assert caught_up


def test_nothing_is_written_to_a_socket_that_is_gone(output, socket, services):
    output.send_heartbeat()
    output.disconnect()
    services.turns.end_round()
    assert not socket.written
