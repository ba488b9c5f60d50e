"""Output: gathered over a round, joined if it is small, and held back from a slow client."""

import pytest
from pamqp import commands

from leveret.broker.net.progress_watch import PROGRESS_MS_MAX
from leveret.broker.net.socket_output import LARGE_PIECE_BYTES, OUTPUT_BYTES_MAX
from leveret.broker.protocols.amqp091.connection.output import Output
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


def test_frames_sent_in_a_round_are_written_at_its_end(output, socket, services):
    output.send(0, commands.Connection.CloseOk)
    output.send_heartbeat()
    assert not socket.written
    services.turns.end_round()
    assert len(socket.written) == 1
    assert (output.writes, output.bytes_out) == (1, len(socket.written[0]))


def test_large_pieces_are_not_joined(output, socket, services):
    pieces = [b"frame", bytes(2 * LARGE_PIECE_BYTES + 1)]
    output.pieces += pieces
    output.gathered(sum(map(len, pieces)))
    services.turns.end_round()
    assert socket.written == pieces


def test_output_of_one_round_that_was_too_much_is_over_with_the_round(output, services, caught_up):
    output.pieces.append(b"much")
    output.gathered(OUTPUT_BYTES_MAX + 1)
    assert output.is_congested
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


class TestAClientThatDoesNotRead:
    @pytest.fixture
    def stuck(self, output):
        """When the client was given up."""
        given_up = []
        output.stuck = lambda: given_up.append(True)
        return given_up

    def test_is_given_up(self, output, socket, services, stuck):
        socket.unsent_bytes = 300_000
        output.pause()
        services.clock.advance(PROGRESS_MS_MAX / 1000 - 1)
        assert not stuck
        services.clock.advance(1)
        assert stuck == [True]

    def test_is_not_given_up_while_it_reads_something(self, output, socket, services, stuck):
        socket.unsent_bytes = 300_000
        output.pause()
        for _ in range(5):
            socket.unsent_bytes -= 1
            services.clock.advance(PROGRESS_MS_MAX / 1000)
        assert not stuck
        services.clock.advance(PROGRESS_MS_MAX / 1000)
        assert stuck == [True]

    def test_has_read_nothing_though_more_is_sent_to_it(self, output, socket, services, stuck):
        socket.unsent_bytes = 300_000
        output.pause()
        output.send_heartbeat()
        services.turns.end_round()
        socket.unsent_bytes += len(socket.written[0])
        services.clock.advance(PROGRESS_MS_MAX / 1000)
        assert stuck == [True]

    @pytest.mark.parametrize("end", ["resume", "disconnect"])
    def test_is_not_watched_afterwards(self, end, output, services, stuck):
        output.pause()
        getattr(output, end)()
        services.clock.advance(PROGRESS_MS_MAX / 1000)
        assert not stuck
