"""The consumer upstream of a federated queue's link: when it is started, and when it is stopped."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.broker.moving.federation.queue_consumer import WAITING_MS, QueueConsumer
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM
from leveret.broker.policies.federation_parameters import parse_upstream
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.unit.broker.queues.fakes import FakeConsumer, FakeVhost, declared, subscribed


class Channel:
    """The channel upstream. said: what it was told."""

    def __init__(self):
        self.said = []

    def consume_unanswered(self, queue, take, consumer_tag, *, no_ack, arguments):
        self.said.append(("consume", queue, consumer_tag, no_ack, arguments))

    def cancel_unanswered(self, consumer_tag):
        self.said.append(("cancel", consumer_tag))

    @property
    def verbs(self):
        return [verb for verb, *_ in self.said]


class Linked:
    """A queue with a link to an upstream."""

    def __init__(self, queue=None, ack_mode=ON_CONFIRM):
        self.queue = queue or declared(FakeVhost())
        self.channel = Channel()
        self.given_back = 0
        self.clock = VirtualClock()
        transfer = SimpleNamespace(take=print, give_back_waiting=self._give_back)
        upstream = parse_upstream("u", {"uri": "amqp://", "ack-mode": ack_mode})
        self.consumer = QueueConsumer(
            self.queue, self.channel, "there", upstream, transfer, self.clock.call_later_ms
        )

    def _give_back(self):
        self.given_back += 1


async def round_of_loop():
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def taken_by(linked):
    """A consumer for which the link has begun to consume."""
    taker = subscribed(linked.queue, FakeConsumer())
    await round_of_loop()
    return taker


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, NO_ACK])
async def test_it_consumes_with_a_low_priority_while_messages_are_wanted(ack_mode):
    it = Linked(ack_mode=ack_mode)
    it.consumer.start()
    await round_of_loop()
    assert it.channel.said == []
    taker = subscribed(it.queue, FakeConsumer())
    await round_of_loop()
    started = (
        "consume", "there", "federation-link-u", ack_mode == NO_ACK, {"x-priority": ("l", -1)},
    )  # fmt: skip
    assert it.channel.said == [started]
    it.queue.cancel(taker)
    await round_of_loop()
    assert it.channel.said == [started, ("cancel", "federation-link-u")]


async def test_messages_that_still_wait_a_while_after_the_stop_go_back():
    it = Linked()
    it.consumer.start()
    it.queue.cancel(await taken_by(it))
    await round_of_loop()
    it.clock.advance((WAITING_MS - 1) / 1000)
    assert it.given_back == 0
    it.clock.advance(0.001)
    assert it.given_back == 1


async def test_messages_do_not_go_back_when_they_are_wanted_again_before_long():
    it = Linked()
    it.consumer.start()
    it.queue.cancel(await taken_by(it))
    await round_of_loop()
    taker = await taken_by(it)
    it.clock.advance(WAITING_MS / 1000)
    it.queue.cancel(taker)
    await round_of_loop()
    it.consumer.stop()
    it.clock.advance(WAITING_MS / 1000)
    assert (it.channel.verbs, it.given_back) == (["consume", "cancel"] * 2, 0)


async def test_it_consumes_at_once_if_messages_are_wanted_already():
    it = Linked()
    subscribed(it.queue, FakeConsumer())
    it.consumer.start()
    await round_of_loop()
    assert it.channel.verbs == ["consume"]


async def test_what_changes_and_changes_back_in_one_round_is_not_told():
    it = Linked()
    it.consumer.start()
    it.queue.cancel(subscribed(it.queue, FakeConsumer()))
    await round_of_loop()
    assert it.channel.said == []


async def test_nothing_is_told_after_its_end():
    it = Linked()
    it.consumer.start()
    subscribed(it.queue, FakeConsumer())
    it.consumer.stop()
    await round_of_loop()
    assert it.channel.said == []
    assert it.queue.demand is None


async def test_links_to_several_upstreams_listen_to_one_queue():
    one = Linked()
    other = Linked(one.queue)
    one.consumer.start()
    other.consumer.start()
    one.consumer.stop()
    subscribed(one.queue, FakeConsumer())
    await round_of_loop()
    assert (one.channel.verbs, other.channel.verbs) == ([], ["consume"])
