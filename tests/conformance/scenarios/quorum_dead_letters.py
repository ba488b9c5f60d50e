"""Dead letters of quorum queues with the strategy at-least-once.

RabbitMQ looks for new routes every dead_letter_worker_publisher_confirm_timeout milliseconds, which
is set to 1000 to record these scenarios. Not asked: a rejected message that comes back to its own
queue, of whose letter RabbitMQ 3.10 never sees the confirm.
"""

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.quorum_messages import publish, quorum_queue, seen

SHOWN = ("messages", "messages_ready", "messages_unacknowledged", "messages_dlx",
         "messages_persistent", "message_bytes", "message_bytes_ready", "message_bytes_dlx",
         "message_bytes_persistent")  # fmt: skip


class Topology:
    """A source, a dead-letter exchange and a target, in a vhost of their own."""

    def __init__(self, ctx, exchange="dlx", **arguments):
        self.ctx = ctx
        self.vhost = ctx.vhost()
        self.channel = ctx.connect(self.vhost).channel()
        named = {
            "dead_letter_exchange": exchange, "dead_letter_strategy": "at-least-once",
            "overflow": "reject-publish", **arguments,
        }  # fmt: skip
        self.source = quorum_queue(ctx, self.channel, "source", **named)
        self.channel.queue_declare("target", durable=True)
        self.channel.confirm_delivery()

    def declare_exchange(self):
        self.channel.exchange_declare("dlx", "fanout", durable=True)

    def bind(self):
        self.channel.queue_bind("target", "dlx")

    def shown(self, ready, letters):
        """What management shows of the source."""

        def is_so(queue):
            return (queue.get("messages_ready"), queue.get("messages_dlx")) == (ready, letters)

        found = self.ctx.await_queue(self.vhost, self.source, is_so)
        passive = self.channel.queue_declare(self.source, passive=True).method
        return [{key: found[key] for key in SHOWN}, passive.message_count]

    def arrived(self, count):
        found = self.ctx.await_deliveries(self.channel, "target", count)
        return [seen(one) for one in found]


@scenario
def reasons(ctx):
    """Letters say that they expired, were rejected, or were returned too often."""
    it = Topology(ctx, delivery_limit=0)
    it.declare_exchange()
    it.bind()
    publish(it.channel, it.source, "a", expiration="0")
    answers = it.arrived(1)
    for requeue in (False, True):
        publish(it.channel, it.source, "b", headers={"own": 1})
        got = ctx.await_get(it.channel, it.source)
        it.channel.basic_nack(got["delivery_tag"], requeue=requeue)
        answers += it.arrived(1)
    return [answers, it.shown(0, 0)]


@scenario
def no_queue_is_bound(ctx):
    """Letters stay in the queue, and are published when a queue is bound."""
    it = Topology(ctx)
    it.declare_exchange()
    publish(it.channel, it.source, "one", "three", expiration="0")
    publish(it.channel, it.source, "left")
    before = it.shown(1, 2)
    it.bind()
    return [before, it.arrived(2), it.shown(1, 0)]


@scenario
def the_exchange_is_missing(ctx):
    """Letters stay in the queue until it is declared, and a queue is bound."""
    it = Topology(ctx)
    publish(it.channel, it.source, "a", expiration="0")
    before = it.shown(0, 1)
    it.declare_exchange()
    it.bind()
    return [before, it.arrived(1), it.shown(0, 0)]


@scenario
def a_cycle(ctx):
    """A letter that would come back stays, until a policy gives it another routing key."""
    it = Topology(ctx, exchange="")
    publish(it.channel, it.source, "a", expiration="0")
    before = it.shown(0, 1)
    definition = {"dead-letter-routing-key": "target"}
    ctx.management.set_policy(it.vhost, "p", "source", definition, apply_to="queues")
    return [before, it.arrived(1), it.shown(0, 0)]


@scenario
def overflow_drop_head(ctx):
    """It falls back to at-most-once: what reaches no queue is gone."""
    it = Topology(ctx, overflow="drop-head")
    it.declare_exchange()
    publish(it.channel, it.source, "a", expiration="0")
    gone = ctx.await_message_count(it.channel, it.source, 0)
    it.bind()
    publish(it.channel, it.source, "b", expiration="0")
    return [gone, it.arrived(1), it.shown(0, 0)]


@scenario
def overflow_of_a_policy(ctx):
    """The policy's overflow counts: with drop-head letters are published at most once."""
    it = Topology(ctx)
    definition = {"overflow": "drop-head"}
    ctx.management.set_policy(it.vhost, "p", "source", definition, apply_to="queues")
    ctx.await_queue(it.vhost, it.source, lambda queue: queue.get("policy") == "p")
    publish(it.channel, it.source, "a", expiration="0")
    return it.shown(0, 0)


@scenario
def another_strategy(ctx):
    """A policy that changes the strategy drops the letters."""
    it = Topology(ctx, dead_letter_strategy="at-least-once", exchange="dlx")
    publish(it.channel, it.source, "a", expiration="0")
    before = it.shown(0, 1)
    definition = {"overflow": "drop-head"}
    ctx.management.set_policy(it.vhost, "p", "source", definition, apply_to="queues")
    after = it.shown(0, 0)
    ctx.management.delete("policies", it.vhost, "p")
    it.declare_exchange()
    it.bind()
    publish(it.channel, it.source, "b", expiration="0")
    return [before, after, it.arrived(1)]


@scenario
def letters_count_for_the_limit(ctx):
    """A queue that is full of letters refuses publishes."""
    vhost = ctx.vhost()
    client = ctx.wire(virtual_host=vhost)
    channel = ctx.connect(vhost).channel()
    queue = quorum_queue(
        ctx, channel, max_length=1, message_ttl=0, dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once", overflow="reject-publish",
    )  # fmt: skip
    client.call(1, "confirm.select")
    answers = []
    for number in range(4):
        client.publish(1, "", queue, str(number))
        answers.append(client.read_event()["method"])
    return answers


@scenario
def purge_and_delete(ctx):
    """A purge leaves letters; the deletion says how many messages were ready."""
    it = Topology(ctx)
    publish(it.channel, it.source, "a", expiration="0")
    publish(it.channel, it.source, "b")
    before = it.shown(1, 1)
    purged = ctx.attempt(it.channel.queue_purge, it.source)
    publish(it.channel, it.source, "c")
    after = it.shown(1, 1)
    return [before, purged, after, ctx.attempt(it.channel.queue_delete, it.source)]


@scenario
def properties_of_letters(ctx):
    """CC keys, the delivery mode, and no expiration."""
    it = Topology(ctx, exchange="amq.direct")
    it.channel.queue_bind("target", "amq.direct", "copied")
    publish(it.channel, it.source, "a", expiration="0", delivery_mode=1, headers={"CC": ["copied"]})
    found = ctx.await_deliveries(it.channel, "target", 1)
    return [found[0]["routing_key"], found[0]["exchange"], found[0]["properties"]]
