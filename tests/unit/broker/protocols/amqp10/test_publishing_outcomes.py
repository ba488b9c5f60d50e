"""The outcomes of published messages, as dispositions over ranges of deliveries."""

import pytest

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.performatives import (
    FRAME_HEADER_BYTES,
    SENDER,
    Accepted,
    Attach,
    Rejected,
    Released,
    read_performative,
)
from leveret.broker.protocols.amqp10.publishing_outcomes import (
    SETTLED_BY_CLIENT,
    PublishingOutcomes,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.declaring import NeverTurns

ACK, NACK = True, False
ONE, ALL = False, True
HIGHEST = 2**32 - 1


@pytest.fixture
def output():
    output = SocketOutput(NeverTurns(), VirtualClock())
    # It is not flushed: the tests look at its pieces.
    output.is_dirty = True
    return output


@pytest.fixture
def outcomes(output):
    return PublishingOutcomes(output, 0)


@pytest.fixture
def link():
    return IncomingLink(Attach("link", 0, SENDER), None, 1000)


def sent(outcomes, output, *settlements):
    """The dispositions for these settlements: the first and the last delivery, and the outcome."""
    output.pieces.clear()
    outcomes.send(list(settlements), {})
    found = []
    for frame in output.pieces:
        disposition, _ = read_performative(frame, FRAME_HEADER_BYTES)
        last = disposition.first if disposition.last is None else disposition.last
        found.append((disposition.first, last, disposition.state))
    return found


def test_messages_of_several_runs_have_one_disposition(outcomes, output, link):
    outcomes.add(1, link, [10, 11])
    outcomes.add(3, link, [12, 13, 14])
    assert (link.unconfirmed, len(outcomes)) == (5, 5)
    assert sent(outcomes, output, (ACK, 4, ALL)) == [(10, 13, Accepted())]
    assert (link.unconfirmed, len(outcomes)) == (1, 1)
    assert sent(outcomes, output, (ACK, 5, ONE)) == [(14, 14, Accepted())]
    assert (link.unconfirmed, len(outcomes)) == (0, 0)


def test_single_outcomes_within_a_run_are_not_sent_again(outcomes, output, link):
    outcomes.add(1, link, [0, 1, 2, 3, 4])
    assert sent(outcomes, output, (ACK, 4, ONE), (NACK, 2, ONE)) == [
        (3, 3, Accepted()), (1, 1, Rejected()),
    ]  # fmt: skip
    assert sent(outcomes, output, (ACK, 5, ALL)) == [
        (0, 0, Accepted()), (2, 2, Accepted()), (4, 4, Accepted()),
    ]  # fmt: skip
    assert link.unconfirmed == 0


def test_returned_messages_are_released(outcomes, output, link):
    outcomes.add(1, link, [7, 8, 9])
    outcomes.returned.add(2)
    assert sent(outcomes, output, (ACK, 3, ALL)) == [
        (7, 7, Accepted()), (8, 8, Released()), (9, 9, Accepted()),
    ]  # fmt: skip
    assert outcomes.returned == set()


def test_messages_that_were_sent_settled_have_no_disposition(outcomes, output, link):
    outcomes.add(1, link, [1, SETTLED_BY_CLIENT, 2])
    assert sent(outcomes, output, (ACK, 3, ALL)) == [(1, 2, Accepted())]
    assert link.unconfirmed == 0


def test_delivery_numbers_begin_again(outcomes, output, link):
    outcomes.add(1, link, [HIGHEST - 1, HIGHEST, 0, 1])
    assert sent(outcomes, output, (ACK, 4, ALL)) == [(HIGHEST - 1, 1, Accepted())]


def test_messages_that_could_not_be_published_are_forgotten(outcomes, output, link):
    other = IncomingLink(Attach("other", 1, SENDER), None, 1000)
    outcomes.add(1, link, [1, 2, 3])
    assert outcomes.forget_from(2) == [2, 3]
    outcomes.add(2, other, [4])
    outcomes.add(3, link, [5])
    assert outcomes.forget_from(3) == [5]
    assert (link.unconfirmed, other.unconfirmed) == (1, 1)
    links = {}
    outcomes.send([(ACK, 2, ALL)], links)
    assert list(links) == [link, other]
    assert len(outcomes) == 0
