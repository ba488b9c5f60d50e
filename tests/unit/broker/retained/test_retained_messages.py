"""The retained messages of a node."""

from typing import Any

import pytest

from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.retained.retained_messages import (
    BEHIND_BYTES,
    FORGET_AFTER_MS,
    RetainedLimitReached,
    RetainedMessages,
)
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.retained.retained_rows import RetainedRow
from leveret.storage.retained.retained_transaction import RetainedLimits

WARM, COLD = RetainedMessage(b"warm"), RetainedMessage(b"cold")


class HeldCopies:
    """Other nodes that have copies when the test says so."""

    def __init__(self) -> None:
        self.rows: list[RetainedRow] = []
        self.answer: Answer[None] = Answer()

    def store(self, rows: list[RetainedRow]) -> Answer[None]:
        """Note the rows."""
        self.rows += rows
        return self.answer


@pytest.fixture
def clock() -> VirtualClock:
    """The time of the node."""
    return VirtualClock()


@pytest.fixture
def retained(clock: VirtualClock) -> RetainedMessages:
    """The messages of a node, in memory."""
    return RetainedMessages(clock, "n")


def found(retained: RetainedMessages, topic_filter: str, vhost: str = "/") -> dict[str, bytes]:
    """The payloads that a filter finds, by topic."""
    payloads: dict[str, bytes] = {}

    def note(topic: str, message: RetainedMessage) -> None:
        payloads[topic] = message.payload

    for _ in retained.find(vhost, topic_filter, note):
        pass
    return payloads


def test_the_last_message_of_a_topic_is_found(retained: RetainedMessages) -> None:
    retained.put("/", "a/b", WARM)
    retained.put("/", "a/b", COLD)
    assert found(retained, "a/b") == {"a/b": b"cold"}
    retained.remove("/", "a/b")
    assert found(retained, "a/b") == {}


def test_a_change_that_waits_is_found(retained: RetainedMessages) -> None:
    calls: list[Any] = []
    retained.call_soon = calls.append
    answers = [retained.put("/", "a", message) for message in (WARM, COLD)]
    assert not any(answer.is_given for answer in answers)
    assert found(retained, "a") == {"a": b"cold"}
    assert all(answer.is_given for answer in answers)
    assert len(calls) == 1


def test_wildcards_find_messages_by_setting_only(retained: RetainedMessages) -> None:
    retained.put("/", "a/b", WARM)
    assert found(retained, "a/+") == {}
    retained.finds_wildcards = True
    assert found(retained, "a/+") == {"a/b": b"warm"}


def test_a_virtual_host_has_its_own_messages(retained: RetainedMessages) -> None:
    retained.put("one", "a", WARM)
    retained.put("two", "a", COLD)
    assert found(retained, "a", "one") == {"a": b"warm"}
    assert retained.counts("two") == (1, 5)
    retained.remove_all("one")
    assert found(retained, "a", "one") == {}
    assert found(retained, "a", "two") == {"a": b"cold"}


def test_an_expired_message_is_removed_and_its_removal_forgotten(
    retained: RetainedMessages, clock: VirtualClock
) -> None:
    now_ms = int(clock.wall_time_s() * 1000)
    retained.put("/", "a", WARM._replace(expires_at_ms=now_ms + 5000))
    assert found(retained, "a")
    clock.advance(5)
    assert retained.counts("/") == (0, 0)
    assert any(retained.work.file.sums.digests)
    clock.advance(FORGET_AFTER_MS / 1000 + 1)
    assert not any(retained.work.file.sums.digests)


def test_the_answer_waits_for_the_copies(retained: RetainedMessages) -> None:
    copies = retained.copies = HeldCopies()
    answer = retained.put("/", "a", WARM)
    assert [row.payload for row in copies.rows] == [b"warm"]
    assert not answer.is_given
    copies.answer.give(None)
    assert answer.is_given


def test_what_another_node_made_is_not_copied_again(retained: RetainedMessages) -> None:
    copies = HeldCopies()
    other = RetainedMessages(VirtualClock(), "m")
    other.copies = retained.copies = copies
    other.put("/", "a", WARM)
    assert retained.merge(copies.rows[:]).is_given
    assert found(retained, "a") == {"a": b"warm"}
    assert len(copies.rows) == 1


def test_a_change_is_newer_than_all_that_the_node_has_seen(retained: RetainedMessages) -> None:
    ahead = RetainedRow(b"/", b"a", 1 << 60, "m", is_message=True, payload=b"future")
    retained.merge([ahead])
    retained.put("/", "a", WARM)
    assert found(retained, "a") == {"a": b"warm"}


def test_a_limit_is_named_when_it_refuses_a_message(retained: RetainedMessages) -> None:
    retained.limits = RetainedLimits(messages=1)
    retained.put("/", "a", WARM)
    with pytest.raises(RetainedLimitReached, match=r"'b'.*may have 1 retained messages"):
        retained.put("/", "b", WARM).result()


def test_a_search_waits_for_its_reader(retained: RetainedMessages) -> None:
    retained.finds_wildcards = True
    for topic in ("a", "b"):
        retained.put("/", topic, WARM)
    ready: Answer[None] = given(None)
    steps = list(retained.find("/", "#", lambda _topic, _message: ready))
    assert steps.count(ready) == 2


def test_publishers_wait_while_much_is_to_be_written(retained: RetainedMessages) -> None:
    copies = retained.copies = HeldCopies()
    assert retained.room() is None
    retained.put("/", "a", RetainedMessage(bytes(BEHIND_BYTES)))
    rooms = [retained.room(), retained.room()]
    assert all(room is not None and not room.is_given for room in rooms)
    copies.answer.give(None)
    assert all(room is not None and room.is_given for room in rooms)
    assert retained.room() is None


def test_nothing_is_opened_for_a_search_of_nothing(retained: RetainedMessages) -> None:
    assert found(retained, "a") == {}
    assert not retained.is_open
