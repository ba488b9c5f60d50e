"""The trace events of a client's messages, from the publish to the end of each."""

import pytest
from pamqp import commands

from leveret.broker.declarations.values import DeleteVhost, Permission, PutPermission, PutVhost
from leveret.broker.events.taps import Sink
from leveret.testing import EmbeddedBroker
from tests.declaring import declare
from tests.protocol.raw_client import RawClient, method_bytes, opened, publish_bytes, wait_until


def names(queues):
    return [queue.name for queue in queues]


class Recorder(Sink):
    """Records events as short tuples. Messages are identified by their bodies."""

    def __init__(self):
        self.events = []
        self.numbers = {}

    def published(self, channel, messages, routing_keys, queues, reason=""):
        who = None if channel is None else (channel.number, channel.connection.user.name)
        for message in messages:
            self.numbers[message.body] = message.number
            why = (reason,) if reason else ()
            event = "publish", message.body, who, list(routing_keys), names(queues), *why
            self.events.append(event)

    def delivered(self, channel, queue, consumer_tag, entries, first_tag, no_ack):
        for tag, entry in enumerate(entries, first_tag):
            assert entry.message.number == self.numbers.get(entry.message.body, 0)
            event = "deliver", entry.message.body, queue.name, consumer_tag, tag
            self.events.append((*event, entry.redelivered, no_ack))

    def acked(self, channel, settled):
        self._settled("ack", settled)

    def rejected(self, channel, settled, requeue):
        self._settled("reject", settled, requeue)

    def requeued(self, settled):
        self._settled("requeue", settled)

    def _settled(self, event, settled, *more):
        for tag, delivery in settled:
            body, queue = delivery.entry.message.body, delivery.queue.name
            self.events.append((event, body, queue, tag, *more))

    def expired(self, queue, message):
        self.events.append(("expire", message.body, queue.name))

    def delayed(self, queue, message, until_ms):
        assert message.number == self.numbers[message.body]
        self.events.append(("delay", message.body, queue.name, until_ms))

    def dropped(self, queue, message, reason):
        self.events.append(("drop", message.body, queue.name, reason))

    def emptied(self, queue, reason, count):
        self.events.append((reason, queue.name, count))

    def dead_lettered(self, queue, message, reason, letter, routing_keys, queues):
        assert message.number == self.numbers.get(message.body, 0)
        self.numbers[letter.body] = letter.number
        event = "dead_letter", message.body, queue.name, reason, letter.address.exchange
        self.events.append((*event, list(routing_keys), names(queues)))

    def returned(self, channel, messages, code, text, reason=""):
        why = (reason,) if reason else ()
        self.events += [("return", message.body, code, text, *why) for message in messages]

    def connection_opened(self, connection):
        self.events.append(("open", connection.user.name))

    def connection_closed(self, connection):
        self.events.append(("close", connection.user.name))

    def detached(self):
        self.events.append("detached")


@pytest.fixture
def sink():
    return Recorder()


@pytest.fixture
def client(timeless, sink):
    """A client in a vhost that was already traced when it connected."""
    attach(timeless, sink)
    with opened(timeless) as client:
        client.declare("q")
        yield client


def attach(broker, sink):
    broker.call(lambda it: it.broker.tracing.attach(it.broker.services.vhosts["/"], sink))


def get(client, queue="q", no_ack=False):
    client.send_method(1, commands.Basic.Get, queue=queue, no_ack=no_ack)
    return client.read_content(1, commands.Basic.GetOk)


def settle(client, method, **arguments):
    """Settle deliveries, and wait until the broker has done so."""
    client.send_method(1, method, **arguments)
    client.declare("q", passive=True)


def of(sink, *kinds):
    return [event for event in sink.events if event[0] in kinds]


def test_acks_that_come_together_are_told_up_to_one_of_nothing(client, sink):
    for body in (b"a", b"b"):
        client.publish(1, "q", body)
        get(client)
    tags = (2, 1, 9, 2)
    client.send(b"".join(method_bytes(1, commands.Basic.Ack, delivery_tag=tag) for tag in tags))
    assert client.read_method(1, commands.Channel.Close).reply_code == 406
    assert of(sink, "ack", "requeue") == [("ack", b"b", "q", 2), ("ack", b"a", "q", 1)]


def test_a_publish_and_a_get(client, sink):
    client.publish(1, "q", b"x")
    get(client, no_ack=True)
    assert sink.events == [
        ("open", "guest"),
        ("publish", b"x", (1, "guest"), ["q"], ["q"]),
        ("deliver", b"x", "q", None, 1, False, True),
    ]


def test_a_run_is_numbered_in_order(client, sink):
    client.send(b"".join(publish_bytes(1, "q", b"%d" % place) for place in range(50)))
    client.declare("q", passive=True)
    numbers = [sink.numbers[b"%d" % place] for place in range(50)]
    assert numbers == list(range(numbers[0], numbers[0] + 50))
    assert numbers[0] > 0


def test_a_consumer_and_its_acks(client, sink):
    client.send(b"".join(publish_bytes(1, "q", b"%d" % place) for place in range(4)))
    client.consume("q", consumer_tag="c")
    for _ in range(4):
        client.read_content(1, commands.Basic.Deliver)
    settle(client, commands.Basic.Ack, delivery_tag=1)
    settle(client, commands.Basic.Ack, delivery_tag=3, multiple=True)
    assert of(sink, "deliver") == [
        ("deliver", b"%d" % place, "q", "c", place + 1, False, False) for place in range(4)
    ]
    assert of(sink, "ack") == [("ack", b"%d" % place, "q", place + 1) for place in range(3)]


def test_a_reject_that_requeues(client, sink):
    client.publish(1, "q", b"x")
    get(client)
    settle(client, commands.Basic.Reject, delivery_tag=1, requeue=True)
    get(client)
    assert of(sink, "reject", "requeue", "deliver") == [
        ("deliver", b"x", "q", None, 1, False, False),
        ("reject", b"x", "q", 1, True),
        ("deliver", b"x", "q", None, 2, True, False),
    ]


@pytest.mark.parametrize("ending", ["recover", "channel", "socket"])
def test_what_goes_back_without_having_been_rejected(timeless, client, sink, ending):
    client.publish(1, "q", b"x")
    get(client)
    if ending == "recover":
        client.call(1, commands.Basic.Recover, commands.Basic.RecoverOk, requeue=True)
    elif ending == "channel":
        arguments = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
        client.call(1, commands.Channel.Close, commands.Channel.CloseOk, **arguments)
    else:
        client.socket.close()
    wait_until(lambda: timeless.queue_length("q"))
    assert of(sink, "reject", "requeue") == [("requeue", b"x", "q", 1)]


def dying(client, queue, exchange="", key="dead", **arguments):
    client.declare("dead")
    table = {"x-dead-letter-exchange": ("S", exchange), "x-dead-letter-routing-key": ("S", key)}
    more = {f"x-{name.replace('_', '-')}": field for name, field in arguments.items()}
    client.declare(queue, arguments={**table, **more})


LETTER = ["dead"], ["dead"]


def test_a_reject_and_its_dead_letter_with_a_number_of_its_own(client, sink):
    dying(client, "d")
    client.publish(1, "d", b"x")
    client.declare("d", passive=True)
    number = sink.numbers[b"x"]
    get(client, "d")
    settle(client, commands.Basic.Nack, delivery_tag=1, multiple=False, requeue=False)
    assert sink.events[-2:] == [
        ("reject", b"x", "d", 1, False), ("dead_letter", b"x", "d", "rejected", "", *LETTER),
    ]  # fmt: skip
    assert sink.numbers[b"x"] > number
    assert get(client, "dead").body == b"x"
    assert sink.events[-1][:3] == ("deliver", b"x", "dead")


def test_messages_that_expire(timeless, client, sink):
    dying(client, "d", message_ttl=("I", 1000))
    client.publish(1, "d", b"x")
    client.publish(1, "q", b"y", expiration="2000")
    client.declare("q", passive=True)
    timeless.advance(3)
    assert of(sink, "expire", "dead_letter") == [
        ("expire", b"x", "d"),
        ("dead_letter", b"x", "d", "expired", "", *LETTER),
        ("expire", b"y", "q"),
    ]


def test_a_dead_letter_without_a_queue_and_one_without_an_exchange(client, sink):
    dying(client, "d", key="nobody", max_length=("I", 0))
    dying(client, "e", exchange="no exchange", max_length=("I", 0))
    client.publish(1, "d", b"x")
    client.publish(1, "e", b"y")
    client.declare("q", passive=True)
    assert of(sink, "drop", "dead_letter") == [
        ("drop", b"x", "d", "maxlen"),
        ("dead_letter", b"x", "d", "maxlen", "", ["nobody"], []),
        ("drop", b"y", "e", "maxlen"),
    ]


def test_a_dead_letter_in_a_cycle_goes_nowhere(timeless, client, sink):
    dying(client, "d", key="d", message_ttl=("I", 10))
    client.publish(1, "d", b"x")
    client.declare("q", passive=True)
    timeless.advance(1)
    assert of(sink, "expire", "dead_letter") == [
        ("expire", b"x", "d"), ("dead_letter", b"x", "d", "expired", "", ["d"], []),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overflow", "dropped", "letters"),
    [("drop-head", b"1", 1), ("reject-publish", b"2", 0), ("reject-publish-dlx", b"2", 1)],
)
def test_a_full_queue(client, sink, overflow, dropped, letters):
    dying(client, "d", max_length=("I", 1), overflow=("S", overflow))
    client.publish(1, "d", b"1")
    client.publish(1, "d", b"2")
    client.declare("q", passive=True)
    assert of(sink, "drop") == [("drop", dropped, "d", "maxlen")]
    assert (
        of(sink, "dead_letter") == [("dead_letter", dropped, "d", "maxlen", "", *LETTER)] * letters
    )
    kinds = [event[0] for event in sink.events if event[1] == dropped]
    assert kinds == ["publish", "drop", "dead_letter"][: 2 + letters]


def test_a_duplicate_that_a_queue_or_an_exchange_refuses(client, sink):
    once = {"x-message-deduplication": ("t", True)}
    known = {"headers": {"x-deduplication-header": ("S", "a")}}
    client.declare("d", arguments=once)
    client.call(1, commands.Exchange.Declare, commands.Exchange.DeclareOk, exchange="x",
                exchange_type="x-message-deduplication", arguments={"x-cache-size": ("I", 9)},
                passive=False, durable=False, auto_delete=False, internal=False)  # fmt: skip
    client.bind("q", "x", "")
    client.publish(1, "d", b"1", **known)
    client.publish(1, "d", b"2", **known)
    client.publish(1, "k", b"3", "x", **known)
    publish_mandatory(client, "k", b"4", "x", **known)
    assert of(sink, "publish", "drop", "return") == [
        ("publish", b"1", (1, "guest"), ["d"], ["d"]),
        ("publish", b"2", (1, "guest"), ["d"], ["d"]),
        ("drop", b"2", "d", "duplicate"),
        ("publish", b"3", (1, "guest"), ["k"], ["q"]),
        ("publish", b"4", (1, "guest"), ["k"], [], "duplicate"),
        ("return", b"4", 312, "NO_ROUTE", "duplicate"),
    ]


def test_a_message_waits_for_its_retry(timeless, client, sink):
    arguments = {"x-delayed-retry-type": ("S", "all"), "x-delayed-retry-min": ("I", 1000)}
    client.declare("d", arguments=arguments)
    client.publish(1, "d", b"x")
    get(client, "d")
    settle(client, commands.Basic.Reject, delivery_tag=1, requeue=True)
    until_ms = timeless.call(lambda it: int(it.broker.services.clock.wall_time_s() * 1000)) + 1000
    assert of(sink, "reject", "delay") == [
        ("reject", b"x", "d", 1, True), ("delay", b"x", "d", until_ms),
    ]  # fmt: skip


def test_a_purge_and_a_delete(client, sink):
    for _ in range(3):
        client.publish(1, "q", b"x")
    client.call(1, commands.Queue.Purge, commands.Queue.PurgeOk, queue="q", nowait=False)
    client.publish(1, "q", b"x")
    client.delete("q")
    assert sink.events[-3:] == [
        ("purge", "q", 3), ("publish", b"x", (1, "guest"), ["q"], ["q"]), ("queue_deleted", "q", 1),
    ]  # fmt: skip


def test_messages_returned_to_a_deleted_queue_go_with_it(client, sink):
    client.declare("d")
    for body in (b"1", b"2", b"3"):
        client.publish(1, "d", body)
        get(client, "d")
    client.delete("d")
    before = len(sink.events)
    settle(client, commands.Basic.Reject, delivery_tag=1, requeue=True)
    settle(client, commands.Basic.Ack, delivery_tag=2, multiple=False)
    client.call(1, commands.Basic.Recover, commands.Basic.RecoverOk, requeue=True)
    assert sink.events[before:] == [
        ("reject", b"1", "d", 1, True), ("drop", b"1", "d", "queue_deleted"),
        ("ack", b"2", "d", 2),
        ("requeue", b"3", "d", 3), ("drop", b"3", "d", "queue_deleted"),
    ]  # fmt: skip


def publish_mandatory(client, key, body, exchange="", **properties):
    """Publish a message, and read it when it is returned."""
    publish = method_bytes(
        1, commands.Basic.Publish, exchange=exchange, routing_key=key, mandatory=True
    )
    client.send(publish + publish_bytes(1, key, body, exchange, **properties)[len(publish) :])
    client.read_content(1, commands.Basic.Return)


def test_a_message_that_is_returned(client, sink):
    publish_mandatory(client, "no", b"x")
    assert sink.events[1:] == [
        ("publish", b"x", (1, "guest"), ["no"], []), ("return", b"x", 312, "NO_ROUTE"),
    ]  # fmt: skip


def test_a_direct_reply_is_published_and_goes_to_no_queue(client, sink):
    client.consume("amq.rabbitmq.reply-to", consumer_tag="replies", no_ack=True)
    client.publish(1, "q", b"question", reply_to="amq.rabbitmq.reply-to")
    name = get(client, no_ack=True).properties["reply_to"]
    client.publish(1, name, b"answer")
    assert client.read_content(1, commands.Basic.Deliver).body == b"answer"
    assert of(sink, "publish") == [
        ("publish", b"question", (1, "guest"), ["q"], ["q"]),
        ("publish", b"answer", (1, "guest"), [name], []),
    ]


def test_keys_of_cc_and_bcc(client, sink):
    client.declare("r")
    keys = {"CC": ("A", [("S", "r")]), "BCC": ("A", [("S", "s")])}
    client.publish(1, "q", b"x", headers=keys)
    client.declare("q", passive=True)
    assert of(sink, "publish") == [("publish", b"x", (1, "guest"), ["q", "r", "s"], ["q", "r"])]


def test_a_transaction_publishes_and_acks_when_it_is_committed(client, sink):
    client.publish(1, "q", b"old")
    get(client)
    client.call(1, commands.Tx.Select, commands.Tx.SelectOk)
    before = len(sink.events)
    client.publish(1, "q", b"new")
    settle(client, commands.Basic.Ack, delivery_tag=1)
    assert len(sink.events) == before
    client.call(1, commands.Tx.Commit, commands.Tx.CommitOk)
    assert sink.events[before:] == [
        ("publish", b"new", (1, "guest"), ["q"], ["q"]), ("ack", b"old", "q", 1),
    ]  # fmt: skip


def test_a_delayed_message_is_published_again_when_it_goes_on(timeless, client, sink):
    arguments = {"x-delayed-type": ("S", "fanout")}
    client.declare_exchange("late", "x-delayed-message", arguments=arguments)
    client.bind("q", "late")
    client.publish(1, "k", b"x", "late", headers={"x-delay": ("I", 1000)})
    client.declare("q", passive=True)
    number = sink.numbers[b"x"]
    timeless.advance(1)
    wait_until(lambda: timeless.queue_length("q"))
    assert of(sink, "publish") == [
        ("publish", b"x", (1, "guest"), ["k"], []), ("publish", b"x", None, ["k"], ["q"]),
    ]  # fmt: skip
    assert sink.numbers[b"x"] == number


def test_connections(timeless, sink):
    attach(timeless, sink)
    with RawClient(timeless) as stranger:
        stranger.start()
    opened(timeless).socket.close()
    wait_until(lambda: len(sink.events) == 2)
    assert sink.events == [("open", "guest"), ("close", "guest")]


def test_messages_from_before_the_trace_have_no_number(timeless, sink):
    with opened(timeless) as client:
        client.declare("q")
        client.publish(1, "q", b"x")
        client.declare("q", passive=True)
        attach(timeless, sink)
        get(client)
    assert sink.events[0] == ("deliver", b"x", "q", None, 1, False, False)


def test_another_vhost_is_not_traced(timeless, client, sink):
    def add(embedded):
        everything = Permission("other", "guest", ".*", ".*", ".*")
        declare(embedded, PutVhost("other"), PutPermission(everything))

    timeless.call(add)
    before = list(sink.events)
    with opened(timeless, vhost="other") as other:
        other.declare("q")
        other.publish(1, "q", b"x")
        get(other)
    assert sink.events == before


def test_a_vhost_that_is_deleted(timeless, client, sink):
    timeless.call(lambda embedded: declare(embedded, DeleteVhost("/")))
    assert sink.events[-1] == "detached"
    assert of(sink, "queue_deleted") == [("queue_deleted", "q", 0)]


def test_the_end_of_the_node_comes_last_also_if_a_client_does_not_answer(sink, monkeypatch):
    monkeypatch.setattr("leveret.broker.node.broker.STOP_SECONDS_MAX", 0.01)
    with EmbeddedBroker.in_thread(virtual_clock=True) as broker:
        attach(broker, sink)
        client = opened(broker)
        client.declare("q")
        client.publish(1, "q", b"x")
        get(client)
    client.socket.close()
    assert sink.events[3:] == [("requeue", b"x", "q", 1), ("close", "guest"), "detached"]
