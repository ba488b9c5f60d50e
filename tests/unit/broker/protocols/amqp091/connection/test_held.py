"""Held channels: what is kept for them, in which order it is handled, and how much it may be."""

import pytest

from leveret.broker.amqp.errors import ConnectionFault, channel_error
from leveret.broker.protocols.amqp091.connection.held import (
    FRAME_COST_BYTES,
    KEPT_BYTES_MAX,
    HeldChannels,
)
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.amqp091.connection.unsynced_replies import UnsyncedReplies
from leveret.broker.runtime.pending import Answer, begin
from tests.unit.broker.net.fakes import make_services

CONNECTION = 0
METHOD = 10 << 16 | 70


@pytest.fixture
def services():
    return make_services()


@pytest.fixture
def held(services):
    """Held channels; the connection goes on with an operation at once."""

    def go_on(number):
        held.waiting[number].operation.step()
        assert held.release(number, None)
        held.handle_kept(number)

    unsynced = UnsyncedReplies(Output(services, ignore), ignore)
    held = HeldChannels(services, go_on, unsynced)
    return held


def ignore(*_):
    """Nothing of this is tested here."""


async def wait_for(answer):
    await answer


def hold(held):
    """Hold the connection; the answer that it waits for."""
    answer = Answer()
    steps = wait_for(answer)
    held.hold(None, steps, begin(steps), METHOD, lambda: "connection.update-secret")
    return answer


def test_frames_are_handled_in_order_when_the_answer_is_there(held):
    handled = []
    answer = hold(held)
    assert held.is_held(CONNECTION)
    for frame in "abc":
        held.keep(CONNECTION, 1, handled.append, frame)
    assert not handled
    answer.give(None)
    assert handled == ["a", "b", "c"]
    assert not held.is_held(CONNECTION)


def test_a_frame_that_has_to_wait_holds_back_those_behind_it(held):
    handled, answers = [], []
    answer = hold(held)
    held.keep(CONNECTION, 1, lambda: answers.append(hold(held)))
    held.keep(CONNECTION, 1, handled.append, "behind")
    answer.give(None)
    assert not handled
    answers[0].give(None)
    assert handled == ["behind"]


def test_a_frame_that_fails_is_not_handled_again(held):
    handled = []

    def fail():
        raise channel_error("bad")

    held.keep(CONNECTION, 1, fail)
    held.keep(CONNECTION, 1, handled.append, "behind")
    with pytest.raises(ConnectionFault):
        held.handle_kept(CONNECTION)
    held.handle_kept(CONNECTION)
    assert handled == ["behind"]


def test_held_bytes_are_counted_until_they_are_handled(held):
    answer = hold(held)
    for _ in range(KEPT_BYTES_MAX // FRAME_COST_BYTES + 1):
        held.keep(CONNECTION, 0, lambda: None)
    assert held.is_full
    answer.give(None)
    assert not held.is_full


def test_an_operation_takes_only_so_long(held, services):
    hold(held)
    with pytest.raises(ConnectionFault) as caught:
        services.clock.advance(services.config.channel_operation_timeout_ms / 1000)
    assert caught.value.reply_text == (
        "INTERNAL_ERROR - operation connection.update-secret timed out after 15000 ms"
    )


def test_nothing_is_handled_after_the_end(held):
    handled = []
    answer = hold(held)
    held.keep(CONNECTION, KEPT_BYTES_MAX, handled.append, "late")
    held.close()
    answer.give(None)
    assert not handled
    assert not held.is_full
