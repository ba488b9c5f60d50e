"""Kinds of queues: a table to which each adds itself, and what a declaration may ask of each."""

from functools import partial

import pytest

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import (
    CLASSIC_ARGUMENTS,
    CLASSIC_QUEUE,
    EVERY_ARGUMENT,
    QueueKind,
)
from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.queues.served_kinds import served_kinds
from leveret.broker.queues.stream_kind import STREAM_QUEUE, STREAM_QUEUE_OF_4
from tests.unit.broker.queues.fakes import FakeVhost

SLOW = QueueKind("slow", "slow_queue", ("x-message-ttl",), may_be_auto_delete=False)


@pytest.fixture
def kinds():
    return served_kinds()


def check(kinds, arguments, durable=True, exclusive=False, auto_delete=False):
    owner = RemoteOwner("127.0.0.1:1 -> 127.0.0.1:5672", "a@host") if exclusive else None
    kinds.check(
        kinds.specify("/", "q", arguments, durable=durable, auto_delete=auto_delete, owner=owner)
    )


def refusal(kinds, arguments, **properties):
    with pytest.raises(ChannelFault) as caught:
        check(kinds, arguments, **properties)
    assert caught.value.reply_code == 406
    return caught.value.explanation


def test_a_queue_is_classic_unless_it_says_otherwise(kinds):
    check(kinds, {}, durable=False, exclusive=True, auto_delete=True)
    specification = kinds.specify("/", "q", {}, durable=True)
    made = kinds.of(specification.kind).make(FakeVhost(), specification)
    assert isinstance(made, ClassicQueue)
    assert made.kind is CLASSIC_QUEUE


@pytest.mark.parametrize("name", sorted(EVERY_ARGUMENT.difference(CLASSIC_ARGUMENTS)))
def test_arguments_of_other_kinds_are_refused(kinds, name):
    assert refusal(kinds, {name: ("I", 1)}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )


def test_a_kind_that_is_not_served_is_checked_and_then_refused(kinds):
    arguments = {"x-queue-type": ("S", "stream")}
    assert refusal(kinds, arguments, exclusive=True) == (
        "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
    )
    assert "does not serve stream queues" in refusal(kinds, arguments)


def test_an_unknown_kind_is_refused(kinds):
    assert refusal(kinds, {"x-queue-type": ("S", "slow")}) == (
        "invalid arg 'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'slow'\""
    )


def test_a_kind_that_is_added_is_served(kinds):
    kinds.add(QueueFactory(SLOW, ClassicQueue))
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


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (STREAM_QUEUE.check_get, "basic.get not supported by stream queues queue 'q' in vhost '/'"),
        (
            STREAM_QUEUE.check_purge,
            "queue.purge not supported by stream queues queue 'q' in vhost '/'",
        ),
        (
            STREAM_QUEUE.check_reject,
            "basic.nack and basic.reject not supported by stream queues queue 'q' in vhost '/'",
        ),
        (
            partial(STREAM_QUEUE.check_consumer, True, 1, False),
            "automatic acknowledgement not supported by stream queues queue 'q' in vhost '/'",
        ),
        (
            partial(QUORUM_QUEUE.check_consumer, False, 1, True),
            "queue 'q' in vhost '/' does not support global qos",
        ),
    ],
)
def test_operations_that_a_kind_does_not_support_are_refused(check, text):
    with pytest.raises(ConnectionFault) as caught:
        check("q", "/")
    assert (caught.value.reply_code, caught.value.explanation) == (540, text)


def test_streams_of_rabbitmq_4_have_its_texts_and_take_rejects():
    STREAM_QUEUE_OF_4.check_reject("q", "/")
    with pytest.raises(ConnectionFault) as refused:
        STREAM_QUEUE_OF_4.check_consumer(True, 1, False, "q", "/")
    assert (
        refused.value.explanation
        == "automatic acknowledgement not supported by stream queue 'q' in vhost '/'"
    )
    with pytest.raises(ChannelFault) as without_limit:
        STREAM_QUEUE_OF_4.check_consumer(False, 0, False, "q", "/")
    assert without_limit.value.explanation == (
        "consumer prefetch count is not set for stream queue 'q' in vhost '/'"
    )


def test_a_consumer_of_a_kind_that_removes_nothing_needs_a_prefetch_limit():
    with pytest.raises(ChannelFault) as caught:
        STREAM_QUEUE.check_consumer(True, 0, False, "q", "/")
    assert caught.value.explanation == (
        "consumer prefetch count is not set for 'queue 'q' in vhost '/''"
    )


def test_kinds_that_remove_messages_support_all_of_them():
    for kind in (CLASSIC_QUEUE, QUORUM_QUEUE):
        kind.check_get("q", "/")
        kind.check_purge("q", "/")
        kind.check_reject("q", "/")
    CLASSIC_QUEUE.check_consumer(True, 0, True, "q", "/")
