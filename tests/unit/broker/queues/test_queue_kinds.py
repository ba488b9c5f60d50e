"""Kinds of queues: a table to which each adds itself, and what a declaration may ask of each."""

import pytest

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.queues.arguments import OTHER_TYPES_ARGUMENTS
from leveret.broker.queues.classic_queue import CLASSIC_QUEUE, ClassicQueue, add_classic_queues
from leveret.broker.queues.queue_kind import QUORUM, STREAM, QueueKind
from leveret.broker.queues.queue_kinds import QueueKinds
from tests.unit.broker.queues.fakes import FakeVhost

SLOW = QueueKind("slow", "slow_queue", ("x-message-ttl",), may_be_auto_delete=False)


@pytest.fixture
def kinds():
    return add_classic_queues(QueueKinds())


def check(kinds, arguments, durable=True, exclusive=False, auto_delete=False):
    kinds.check_declaration(arguments, durable, exclusive, auto_delete, "q", "/")


def refusal(kinds, arguments, **properties):
    with pytest.raises(ChannelFault) as caught:
        check(kinds, arguments, **properties)
    assert caught.value.reply_code == 406
    return caught.value.explanation


def test_a_queue_is_classic_unless_it_says_otherwise(kinds):
    check(kinds, {}, durable=False, exclusive=True, auto_delete=True)
    made = kinds.make(FakeVhost(), "q", True, False, {}, None, 0)
    assert isinstance(made, ClassicQueue)
    assert made.kind is CLASSIC_QUEUE


@pytest.mark.parametrize("name", OTHER_TYPES_ARGUMENTS)
def test_arguments_of_other_kinds_are_refused(kinds, name):
    assert refusal(kinds, {name: ("I", 1)}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_kind_that_is_not_served_is_checked_and_then_refused(kinds, kind):
    arguments = {"x-queue-type": ("S", kind)}
    assert refusal(kinds, arguments, exclusive=True) == (
        "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
    )
    assert f"does not serve {kind} queues" in refusal(kinds, arguments)


def test_an_unknown_kind_is_refused(kinds):
    assert refusal(kinds, {"x-queue-type": ("S", "slow")}) == (
        "invalid arg 'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'slow'\""
    )


def test_a_kind_that_is_added_is_served(kinds):
    kinds.add(SLOW, ClassicQueue)
    arguments = {"x-queue-type": ("S", "slow")}
    check(kinds, arguments)
    assert refusal(kinds, arguments, auto_delete=True) == (
        "invalid property 'auto-delete' for queue 'q' in vhost '/'"
    )


def test_consumer_arguments_of_other_kinds_are_refused():
    with pytest.raises(ChannelFault) as caught:
        CLASSIC_QUEUE.check_consumer_arguments({"x-stream-offset": ("S", "first")}, "q", "/")
    assert caught.value.explanation == (
        "invalid arg 'x-stream-offset' for queue 'q' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )


def test_operations_that_a_kind_does_not_support_are_refused():
    for refused in (
        lambda: STREAM.check_get("q", "/"),
        lambda: QUORUM.check_consumer(False, True, "q", "/"),
        lambda: STREAM.check_consumer(True, False, "q", "/"),
    ):
        with pytest.raises(ConnectionFault) as caught:
            refused()
        assert caught.value.reply_code == 540
    QUORUM.check_get("q", "/")
    CLASSIC_QUEUE.check_consumer(True, True, "q", "/")
