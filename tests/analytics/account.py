"""A client that records every step it takes, with the earliest and latest time of each.

A node's records have times of the node; the clients use the same clock. The node executes a step
after the client has started it and before the client knows its result, so the record's time must
lie between these two times.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aio_pika
from aio_pika.exceptions import DeliveryError

from tests.patience import PATIENCE_SECONDS


def now_us():
    """Microseconds since 1970, by the node's clock."""
    return int(time.time() * 1_000_000)


async def number_of(channel):
    """The number of a channel."""
    return (await channel.get_underlay_channel()).number


@dataclass
class Step:
    """An event at the node, not before `from_us` and not after `to_us`."""

    event: str
    from_us: int
    to_us: int
    message_id: str | None = None
    queue: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name):
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None


class Account:
    """All steps of all clients, in order."""

    def __init__(self):
        self.steps = []

    def add(self, event, from_us, message_id=None, queue=None, to_us=None, **fields):
        step = Step(event, from_us, to_us or now_us(), message_id, queue, fields)
        self.steps.append(step)
        return step

    def all(self, event, **wanted):
        """Return the steps of an event with these fields."""
        return [
            step
            for step in self.steps
            if step.event == event
            and all(getattr(step, name) == value for name, value in wanted.items())
        ]

    def one(self, event, message_id, queue=None, turn=-1):
        """Return a step of a message. turn: its index if there are several; by default the last."""
        found = self.all(event, message_id=message_id)
        return [step for step in found if queue in (None, step.queue)][turn]


class Client:
    """A connection to a vhost that records its steps."""

    def __init__(self, account, node, vhost, user):
        self.account, self.node, self.user = account, node, user
        self.where = f"vhosts/{quote(vhost, safe='')}/connections"

    @classmethod
    async def connect(cls, account, node, vhost, user, label):
        """Connect. label: identifies the connection in the API."""
        self = cls(account, node, vhost, user)
        url = f"amqp://{user}:{user}@127.0.0.1:{node.port}/{quote(vhost, safe='')}"
        began = now_us()
        self.connection = await aio_pika.connect(url, client_properties={"connection_name": label})
        opened = now_us()
        node.wait_until(lambda: label in self.listed(), f"connection {label} is listed")
        self.name = self.listed()[label]
        self.who = {"connection": self.name, "user": user}
        account.add("open", began, to_us=opened, **self.who)
        self.channel = await self.new_channel()
        self.number = await number_of(self.channel)
        return self

    def listed(self):
        """Return the names of the vhost's connections by label."""
        return {one["user_provided_name"]: one["name"] for one in self.node.get(self.where)}

    async def new_channel(self, confirms=True):
        """Open a channel; with confirms, a returned message is an error."""
        return await self.connection.channel(publisher_confirms=confirms, on_return_raises=confirms)

    async def close(self):
        """Close the connection, which requeues unacknowledged messages."""
        began = now_us()
        await self.connection.close()
        self.node.wait_until(lambda: self.name not in self.listed().values(), "it is gone")
        self.account.add("close", began, **self.who)

    # Publishing

    async def publish(self, message_id, key, queues, exchange="", size=10, **more):
        """Publish a message that is routed to these queues. Returns whether it was accepted."""
        target = await self._exchange(exchange)
        is_mandatory = more.pop("mandatory", False)
        message = aio_pika.Message(b"x" * size, message_id=message_id, **more)
        began, is_taken = now_us(), True
        try:
            await target.publish(message, key, mandatory=is_mandatory)
        except DeliveryError:
            is_taken = False
        self.note_publish(began, message_id, key, queues, exchange, size, now_us())
        return is_taken

    async def publish_many(self, kinds, queues, exchange):
        """Publish without waiting for each. kinds: pairs of message-id and routing key."""
        channel = await self.new_channel(confirms=False)
        target = await channel.get_exchange(exchange, ensure=False)
        began = now_us()
        for message_id, key in kinds:
            await target.publish(aio_pika.Message(b"x", message_id=message_id), key)
        await channel.get_exchange(exchange)
        ended = now_us()
        for message_id, key in kinds:
            self.note_publish(began, message_id, key, queues, exchange, 1, ended)
        await channel.close()

    def note_publish(self, began, message_id, key, queues, exchange, size, ended):
        self.account.add(
            "publish", began, message_id, to_us=ended, key=key, queues=queues,
            exchange=exchange, size=size, **self.who,
        )  # fmt: skip

    async def _exchange(self, name):
        if not name:
            return self.channel.default_exchange
        return await self.channel.get_exchange(name, ensure=False)

    # Consuming

    async def get(self, name, no_ack=False):
        """basic.get; the queue must have a message."""
        queue = await self.channel.get_queue(name, ensure=False)
        began = now_us()
        message = await queue.get(no_ack=no_ack, fail=False)
        assert message is not None, name
        self.note_delivery(began, name, None, message, no_ack, self.number)
        return message

    def note_delivery(self, began, queue, tag, message, no_ack, channel):
        self.account.add(
            "deliver", began, message.message_id, queue, tag=tag, key=message.routing_key,
            channel=channel,
            exchange=message.exchange, redelivered=message.redelivered, no_ack=no_ack,
            size=len(message.body), **self.who,
        )  # fmt: skip

    async def ack(self, queue, message, multiple=(), channel=None):
        """Acknowledge a message and the earlier ones in `multiple`. Returns the time."""
        steps = self._note(queue, [*multiple, message], "ack")
        await message.ack(multiple=bool(multiple))
        return await self._settled(steps, channel)

    async def reject(self, queue, message, requeue, channel=None):
        steps = self._note(queue, [message], "reject", requeue=requeue)
        await message.reject(requeue=requeue)
        await self._settled(steps, channel)

    def _note(self, queue, messages, event, **more):
        """Record steps before they are executed: the next delivery may arrive before the answer."""
        began = now_us()
        return [
            self.account.add(event, began, message.message_id, queue, **self.who, **more)
            for message in messages
        ]

    async def _settled(self, steps, channel):
        """An ack has no answer, so wait for the answer to another method on its channel."""
        await (channel or self.channel).get_exchange("amq.direct")
        ended = now_us()
        for step in steps:
            step.to_us = ended
        return ended

    async def recover(self, queue, messages):
        """Requeue this client's unacknowledged messages."""
        began = now_us()
        await (await self.channel.get_underlay_channel()).basic_recover(requeue=True)
        for message in messages:
            self.account.add("requeue", began, message.message_id, queue)

    async def consume(self, queue, tag, no_ack=False, prefetch=10):
        """Start a consumer on a channel of its own."""
        channel = await self.new_channel()
        await channel.set_qos(prefetch_count=prefetch)
        return await Consumer(self, queue, tag, no_ack, channel, prefetch).start()

    async def wait_for_depth(self, queue, messages):
        """Wait until `queue` has `messages` ready messages."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = await self.channel.declare_queue(queue, passive=True)
            if found.declaration_result.message_count == messages:
                return
            assert time.monotonic() < deadline, f"{queue} has not {messages} messages"
            await asyncio.sleep(0.005)


class Consumer:
    """A consumer that records its deliveries. `next` waits for one."""

    def __init__(self, client, queue, tag, no_ack, channel, prefetch):
        self.client, self.queue, self.tag = client, queue, tag
        self.no_ack, self.channel, self.prefetch = no_ack, channel, prefetch
        self._came = asyncio.Queue()
        self._may_get_us = 0

    async def start(self):
        queue = await self.channel.get_queue(self.queue, ensure=False)
        self.number = await number_of(self.channel)
        self._may_get_us = now_us()
        await queue.consume(self._take, no_ack=self.no_ack, consumer_tag=self.tag)
        return self

    async def _take(self, message):
        self.client.note_delivery(
            self._may_get_us, self.queue, self.tag, message, self.no_ack, self.number
        )
        self._came.put_nowait(message)

    async def next(self):
        return await asyncio.wait_for(self._came.get(), PATIENCE_SECONDS)

    async def ack(self, message, multiple=()):
        self._settles()
        return await self.client.ack(self.queue, message, multiple, self.channel)

    async def reject(self, message, requeue):
        self._settles()
        await self.client.reject(self.queue, message, requeue, self.channel)

    def _settles(self):
        """A consumer with a prefetch of one gets the next message after this one is settled."""
        if self.prefetch == 1:
            self._may_get_us = now_us()

    async def close(self, unacked):
        """Close the channel. unacked: the messages that are requeued."""
        began = now_us()
        await self.channel.close()
        for message in unacked:
            self.client.account.add("requeue", began, message.message_id, self.queue)
