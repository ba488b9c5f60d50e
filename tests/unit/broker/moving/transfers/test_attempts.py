"""Attempts to move messages: when the next one begins, and what the log says of those that fail."""

import logging

import pytest

from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.broker.moving.transfers.attempts import (
    REPEATED_MS,
    Attempts,
    TransferFailed,
    connect_to_all,
)
from leveret.broker.runtime.virtual_clock import VirtualClock

logger = logging.getLogger("leveret.shovel")
PAUSE_SECONDS = 1e-6
SUCCESS, LATER = object(), object()
"""What happens before an attempt fails: messages move; enough time passes that the log repeats."""


class Fixture:
    """Attempts whose outcomes a test gives. reasons: of those that have failed."""

    def __init__(self, *outcomes, delay_s=PAUSE_SECONDS):
        self.clock = VirtualClock()
        self.attempts = Attempts("it", logger, delay_s, self.clock)
        self.reasons = []
        self._outcomes = iter(outcomes)

    async def _attempt(self):
        outcome = next(self._outcomes)
        if outcome is SUCCESS:
            self.attempts.succeeded()
            outcome = next(self._outcomes)
        elif outcome is LATER:
            self.clock.advance(REPEATED_MS / 1000)
            outcome = next(self._outcomes)
        if isinstance(outcome, bool):
            return outcome
        raise outcome if isinstance(outcome, Exception) else TransferFailed(outcome)

    async def run(self):
        return await self.attempts.run(self._attempt, self.reasons.append)


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO, "leveret.shovel")
    return caplog


async def test_they_go_on_until_one_succeeds(log):
    fixture = Fixture("no way", ConnectionFailed("gone"), False, True)
    assert await fixture.run()
    assert fixture.reasons == ["no way", "gone"]
    assert log.messages == [
        f"it has stopped, and starts again in {PAUSE_SECONDS:g} s: {reason}"
        for reason in ("no way", "gone")
    ]


async def test_without_a_pause_there_is_one(log):
    assert not await Fixture("no way", delay_s=0).run()
    assert log.messages == ["it has stopped, and is not started again: no way"]


async def test_a_fault_of_this_node_is_logged_with_its_place_and_tried_again(log):
    fixture = Fixture(KeyError("k"), True)
    assert await fixture.run()
    assert fixture.reasons == ["an error of this node: KeyError('k')"]
    assert log.records[0].exc_info is not None


async def test_a_reason_that_stays_is_logged_from_time_to_time(log):
    fixture = Fixture(*["gone"] * 50, LATER, "gone", "gone", "other", "gone", True)
    assert await fixture.run()
    assert len(fixture.reasons) == 54
    again = f"it has stopped, and starts again in {PAUSE_SECONDS:g} s"
    assert log.messages == [
        f"{again}: gone", "it has stopped 50 more times for the same reason: gone",
        f"{again}: other", f"{again}: gone",
    ]  # fmt: skip


async def test_a_failure_after_a_success_is_logged(log):
    fixture = Fixture("gone", "gone", SUCCESS, "gone", True)
    assert await fixture.run()
    assert len(log.messages) == 2


async def connected(*refused, **ends):
    """The URIs in the order in which they were connected to, and what was connected."""
    asked, opened = [], []

    async def connect(uri, name):
        asked.append(uri)
        if uri in refused:
            raise ConnectionFailed("refused")
        return f"{name} to {uri}"

    return asked, await connect_to_all(connect, ends, "name", opened), opened


@pytest.mark.parametrize("here", ["amqp://", "amqp:///v", "amqp://user:password@/v"])
async def test_the_node_itself_is_connected_to_last(here):
    asked, found, opened = await connected(source=[here], destination=["amqp://far"])
    assert asked == ["amqp://far", here]
    assert found["source"] == (here, f"name to {here}")
    assert opened == ["name to amqp://far", f"name to {here}"]
    asked, _, _ = await connected(source=["amqp://one"], destination=["amqp://two"])
    assert asked == ["amqp://one", "amqp://two"]


async def test_the_problems_of_several_uris_are_told_in_their_order():
    uris = [f"amqp://user:password@{host}" for host in "abcdef"]
    told = "; ".join(f"amqp://{host}: refused" for host in "abcdef")
    for _ in range(5):
        with pytest.raises(TransferFailed) as raised:
            await connected(*uris, source=uris)
        assert str(raised.value) == f"failed to connect to source: {told}"
