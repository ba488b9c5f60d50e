"""What clients of two nodes do together, with queues on either of them.

Unless a test says so, a queue lives on the far node. `near` is the client of one node, `far` that
of the other.
"""

import pytest
from pamqp import commands

from leveret.broker.declarations.values import Policy, PutPolicy
from tests.protocol.raw_client import opened, publish_bytes, wait_until

REPLIES = "amq.rabbitmq.reply-to"
AT_HOME = {"x-queue-master-locator": ("S", "client-local")}
LETTERS = {"x-dead-letter-exchange": ("S", ""), "x-dead-letter-routing-key": ("S", "dead")}


@pytest.fixture
def near(broker, linked):
    with opened(broker) as client:
        yield client


@pytest.fixture
def far(far_node):
    with opened(far_node) as client:
        yield client


def deliver(client):
    return client.read_content(1, commands.Basic.Deliver)


def refusal(client):
    close = client.read_method(1, commands.Channel.Close)
    client.send_method(1, commands.Channel.CloseOk)
    return close.reply_code, close.reply_text


def ready(broker, linked, queue):
    """How many messages a queue of the far node has."""
    return broker.call(lambda _: linked.queue(queue).figures.counts().ready)


class TestDirectReplies:
    @pytest.fixture(params=["to the near node", "to the far node"])
    def pair(self, request, near, far):
        """The requester, and who responds on the other node."""
        return (near, far) if request.param == "to the near node" else (far, near)

    @pytest.fixture
    def reply_to(self, pair):
        """The name that the requester's request carries."""
        requester, responder = pair
        responder.declare("requests")
        requester.consume(REPLIES, consumer_tag="replies", no_ack=True)
        requester.publish(1, "requests", b"how are you?", reply_to=REPLIES)
        responder.consume("requests", no_ack=True, consumer_tag="requests")
        name = deliver(responder).properties["reply_to"]
        responder.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag="requests")
        return name

    def exists(self, client, name):
        """Whether a passive declaration finds a name, or the text of its refusal."""
        client.send_method(1, commands.Queue.Declare, queue=name, passive=True)
        if client.peek_method() is commands.Queue.DeclareOk:
            return client.read_method(1, commands.Queue.DeclareOk).consumer_count == 1
        return refusal(client)[1]

    def test_a_reply_reaches_the_requester_on_another_node(self, pair, reply_to):
        requester, responder = pair
        responder.publish(1, reply_to, b"well", correlation_id="c", headers={"h": ("I", 1)})
        reply = deliver(requester)
        assert reply.body == b"well"
        assert reply.properties == {"correlation_id": "c", "headers": {"h": ("I", 1)}}
        assert (reply.method.consumer_tag, reply.method.routing_key) == ("replies", reply_to)

    def test_the_responder_can_ask_whether_the_requester_is_there(self, pair, reply_to):
        requester, responder = pair
        assert self.exists(responder, reply_to) is True
        requester.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag="replies")
        gone = f"NOT_FOUND - no queue '{reply_to}' in vhost '/'"
        assert self.exists(responder, reply_to) == gone


class TestConsumers:
    def test_a_global_limit_holds_for_queues_on_several_nodes(self, near):
        near.declare("far")
        near.declare("near", arguments=AT_HOME)
        near.call(1, commands.Basic.Qos, commands.Basic.QosOk, prefetch_count=3, global_=True)
        for name in ("far", "near"):
            near.consume(name, consumer_tag=name)
        for name in ("far", "near"):
            near.send(publish_bytes(1, name, b"x") * 5)
        for tag in range(1, 11):
            assert deliver(near).method.delivery_tag == tag
            if tag >= 3:
                # The next one comes only now.
                near.send_method(1, commands.Basic.Ack, delivery_tag=tag - 2)
        near.send_method(1, commands.Basic.Ack, delivery_tag=10, multiple=True)
        assert near.declare("far").message_count == 0

    def test_the_consumer_with_the_highest_priority_comes_first_on_any_node(self, near, far):
        near.declare("q")
        far.consume("q", consumer_tag="low", arguments={"x-priority": ("I", 1)})
        near.call(1, commands.Basic.Qos, commands.Basic.QosOk, prefetch_count=2)
        near.consume("q", consumer_tag="high", arguments={"x-priority": ("I", 2)})
        far.send(publish_bytes(1, "q", b"1") + publish_bytes(1, "q", b"2"))
        assert [deliver(near).body for _ in range(2)] == [b"1", b"2"]
        far.publish(1, "q", b"3")
        assert deliver(far).body == b"3"

    def test_the_single_active_consumer_is_followed_by_one_of_another_node(
        self, broker, linked, near, far
    ):
        near.declare("q", arguments={"x-single-active-consumer": ("t", True)})
        near.consume("q")
        far.consume("q")
        far.publish(1, "q", b"1")
        assert deliver(near).body == b"1"
        broker.call(lambda _: linked.unlink())
        again = deliver(far)
        assert (again.body, again.method.redelivered) == (b"1", True)

    def test_an_auto_delete_queue_goes_with_the_node_of_its_last_consumer(
        self, broker, linked, near
    ):
        near.declare("q", auto_delete=True)
        near.consume("q")
        broker.call(lambda _: linked.unlink())
        queues = linked.far.services.vhosts["/"].queues
        wait_until(lambda: broker.call(lambda _: "q" not in queues))


class TestPublishing:
    def test_a_transaction_spans_queues_on_several_nodes(self, near, far):
        near.declare("far")
        near.declare("near", arguments=AT_HOME)
        near.call(1, commands.Tx.Select, commands.Tx.SelectOk)
        near.send(publish_bytes(1, "far", b"1") + publish_bytes(1, "near", b"2"))
        assert all(far.declare(name, passive=True).message_count == 0 for name in ("far", "near"))
        near.call(1, commands.Tx.Commit, commands.Tx.CommitOk)
        assert (far.get("far"), far.get("near")) == (b"1", b"2")

    def test_acknowledgements_of_a_transaction_reach_all_nodes(self, near, far):
        near.declare("far")
        near.declare("near", arguments=AT_HOME)
        near.send(publish_bytes(1, "far", b"1") + publish_bytes(1, "near", b"2"))
        near.call(1, commands.Tx.Select, commands.Tx.SelectOk)
        for name in ("far", "near"):
            near.send_method(1, commands.Basic.Get, queue=name)
            near.read_content(1, commands.Basic.GetOk)
        near.send_method(1, commands.Basic.Ack, delivery_tag=2, multiple=True)
        near.call(1, commands.Tx.Rollback, commands.Tx.RollbackOk)
        near.send_method(1, commands.Basic.Ack, delivery_tag=2, multiple=True)
        near.call(1, commands.Tx.Commit, commands.Tx.CommitOk)
        near.call(1, commands.Channel.Close, commands.Channel.CloseOk, reply_code=200,
                  reply_text="", class_id=0, method_id=0)  # fmt: skip
        assert (far.get("far"), far.get("near")) == (None, None)

    def test_a_commit_fails_when_the_node_of_a_queue_goes_down(self, broker, linked, near):
        near.declare("far")
        near.declare("near", arguments=AT_HOME)
        near.call(1, commands.Tx.Select, commands.Tx.SelectOk)
        near.send(publish_bytes(1, "far", b"1") + publish_bytes(1, "near", b"2"))
        broker.call(lambda _: linked.stop_delivering())
        near.send_method(1, commands.Tx.Commit)
        wait_until(lambda: broker.call(lambda _: linked.is_waiting))
        broker.call(lambda _: linked.unlink())
        assert refusal(near) == (406, "PRECONDITION_FAILED - partial tx completion")

    def test_a_message_for_a_queue_whose_node_is_down_takes_the_alternate_exchange(
        self, broker, linked, near
    ):
        near.declare("kept", arguments=AT_HOME)
        near.declare("q", durable=True)
        alternate = {"alternate-exchange": ("S", "amq.fanout")}
        near.declare_exchange("events", "direct", arguments=alternate)
        near.bind("q", "events", "key")
        near.bind("kept", "amq.fanout", "")
        near.publish(1, "key", b"up", exchange="events")
        assert near.get("q") == b"up"
        broker.call(lambda _: linked.unlink())
        near.publish(1, "key", b"down", exchange="events")
        assert near.get("kept") == b"down"

    def test_exchanges_that_are_bound_to_each_other_lead_to_other_nodes(self, near, far):
        near.declare("q")
        near.declare_exchange("events", "topic")
        near.call(1, commands.Exchange.Bind, commands.Exchange.BindOk, source="events",
                  destination="amq.topic", routing_key="a.#")  # fmt: skip
        far.bind("q", "amq.topic", "*.b")
        near.consume("q", no_ack=True)
        for client in (far, near):
            client.publish(1, "a.b", b"there", exchange="events")
            assert deliver(near).body == b"there"


class TestDeadLetters:
    @pytest.mark.parametrize("places", ["far to near", "near to far"])
    def test_messages_that_are_rejected_or_expire_go_to_a_queue_on_another_node(
        self, near, far, places
    ):
        here, there = (AT_HOME, {}) if places == "near to far" else ({}, AT_HOME)
        near.declare("dead", arguments=there)
        letters = LETTERS
        near.declare("q", arguments={**letters, **here})
        near.consume("dead", no_ack=True)
        far.publish(1, "q", b"rejected")
        far.send_method(1, commands.Basic.Get, queue="q")
        got = far.read_content(1, commands.Basic.GetOk)
        far.send_method(1, commands.Basic.Reject, delivery_tag=got.method.delivery_tag,
                        requeue=False)  # fmt: skip
        letter = deliver(near)
        assert letter.body == b"rejected"
        assert letter.properties["headers"]["x-first-death-reason"] == ("S", "rejected")
        far.publish(1, "q", b"expired", expiration="1")
        assert deliver(near).body == b"expired"

    def test_a_dead_letter_to_a_queue_that_is_down_does_no_harm(self, broker, linked, near, far):
        near.declare("dead", arguments=AT_HOME)
        letters = LETTERS
        near.declare("q", arguments=letters)
        broker.call(lambda _: linked.unlink())
        far.publish(1, "q", b"expired", expiration="0")
        wait_until(lambda: far.declare("q", passive=True).message_count == 0)
        broker.call(lambda _: linked.link())
        far.publish(1, "q", b"second", expiration="0")
        near.consume("dead", no_ack=True)
        assert deliver(near).body == b"second"


class TestPolicies:
    def put(self, broker, definition):
        policy = Policy("/", "p", ".*", "queues", definition, 0)
        broker.call(lambda it: it.broker.services.declarations.submit(PutPolicy("policy", policy)))

    def test_a_length_limit_holds_on_the_node_of_the_queue(self, broker, linked, near):
        near.declare("q")
        near.send(publish_bytes(1, "q", b"1") + publish_bytes(1, "q", b"2"))
        self.put(broker, {"max-length": 1})
        near.publish(1, "q", b"3")
        assert near.declare("q").message_count == 1
        assert near.get("q") == b"3"

    def test_an_unused_queue_expires_on_all_nodes(self, broker, linked, near):
        near.declare("q")
        self.put(broker, {"expires": 1})
        for node in (linked.near, linked.far):
            queues = node.services.vhosts["/"].queues
            wait_until(lambda queues=queues: broker.call(lambda _: "q" not in queues))


class TestFirehose:
    """Copies are made where a client publishes or gets a message; each node is switched on."""

    @pytest.fixture
    def copies(self, near):
        """A client that gets all copies, from a queue on the far node."""
        near.declare("copies")
        near.bind("copies", "amq.rabbitmq.trace", "#")
        return near

    def trace(self, broker, node):
        vhost = node.services.vhosts["/"]
        broker.call(lambda _: node.tracing.set_firehose(vhost, True))

    def test_what_clients_of_a_traced_node_do_is_copied_wherever_queues_are(
        self, broker, linked, copies, far
    ):
        self.trace(broker, linked.near)
        copies.declare("q")
        copies.publish(1, "q", b"traced")
        assert copies.get("q") == b"traced"
        far.publish(1, "q", b"not traced")
        assert far.get("q") == b"not traced"
        keys = []
        while far.declare("copies").message_count:
            keys.append(far.take("copies").method.routing_key)
        assert keys == ["publish.", "deliver.q"]

    def test_each_node_that_is_traced_copies_its_part(self, broker, linked, copies, far):
        for node in (linked.near, linked.far):
            self.trace(broker, node)
        copies.declare("q")
        copies.publish(1, "q", b"traced")
        wait_until(lambda: far.declare("q").message_count)
        assert far.get("q") == b"traced"
        seen = []
        while far.declare("copies").message_count:
            copy = far.take("copies")
            seen.append((copy.method.routing_key, copy.properties["headers"]["node"][1]))
        near_name = broker.call(lambda it: it.broker.config.node_name)
        assert seen == [("publish.", near_name), ("deliver.q", "b@host")]
