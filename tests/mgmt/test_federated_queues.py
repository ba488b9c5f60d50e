"""Federated queues: messages come from another node while a consumer here has room."""

import itertools
import signal
from contextlib import suppress

import pika
import pytest

from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_federated_exchanges import ODD_HEADERS
from tests.mgmt.test_shovels import publish, ready, take_all
from tests.ports import free_port

BODIES = [b"%d" % number for number in range(300)]


class Place:
    """A vhost of a node, with a channel of a client."""

    def __init__(self, node, vhost):
        self.node, self.vhost = node, vhost
        self._connections = []
        self.channel = self.open_channel()
        self.channel.confirm_delivery()

    @property
    def uri(self):
        return uri_of(self.node, self.vhost)

    def open_channel(self):
        address = pika.ConnectionParameters("127.0.0.1", self.node.port, self.vhost, heartbeat=0)
        connection = pika.BlockingConnection(address)
        self._connections.append(connection)
        return connection.channel()

    def publish(self, bodies, queue="q", **properties):
        publish(self.channel, queue, bodies, **properties)

    def count(self, queue="q"):
        """How many messages are in a queue."""
        return ready(self.node, self.vhost, queue)

    def ready(self, queue="q"):
        """How many messages are in a queue and how many consumers it has, as AMQP says it."""
        method = self.channel.queue_declare(queue, passive=True).method
        return method.message_count, method.consumer_count

    def queues(self):
        """How queues were declared."""
        keys = "name", "durable", "auto_delete", "arguments"
        found = self.node.get(f"queues/{self.vhost}")
        return [{key: one[key] for key in keys} for one in found]

    def consumers(self, queue="q"):
        """The priorities of a queue's consumers."""
        found = self.node.get(f"queues/{self.vhost}/{queue}")["consumer_details"]
        return [one["arguments"].get("x-priority", 0) for one in found]

    def federate(self, upstream, name="u", pattern="^q$", **value):
        """Have queues get messages from another place."""
        value = {"uri": upstream, "reconnect-delay": 1} | dashed(value)
        answer = self.node.put(
            f"parameters/federation-upstream/{self.vhost}/{name}", {"value": value}
        )
        assert answer.status in (201, 204), answer
        policy = {"pattern": pattern, "definition": {"federation-upstream": name}}
        assert self.node.put(f"policies/{self.vhost}/federated", policy).status in (201, 204)

    def wait_for_link(self, queue="q"):
        link = f"federation link of queue '{queue}' in vhost '{self.vhost}' to upstream 'u'"
        begins = f"{link} is running"
        self.node.wait_until(lambda: begins in self.node.log, "the link runs")

    def close(self):
        for connection in self._connections:
            with suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.fixture
def here(node, vhost):
    place = Place(node, vhost)
    yield place
    place.close()


@pytest.fixture
def there(far, vhost):
    assert far.put(f"vhosts/{vhost}").status == 201
    place = Place(far, vhost)
    yield place
    place.close()
    far.delete(f"vhosts/{vhost}")


class Taker:
    """A consumer. bodies, headers: of what it has got."""

    def __init__(self, place, *, queue="q", prefetch=0, acks=True, priority=None, durable=True):
        self._node = place.node
        self.channel = place.open_channel()
        self.channel.queue_declare(queue, passive=not durable, durable=durable)
        self.channel.basic_qos(prefetch_count=prefetch)
        self.bodies, self.headers, self._tags = [], [], []
        self._acks = acks
        arguments = {} if priority is None else {"x-priority": priority}
        self.tag = self.channel.basic_consume(queue, self._take, arguments=arguments)

    def _take(self, channel, method, properties, body):
        self.bodies.append(body)
        self.headers.append(properties.headers)
        if self._acks:
            channel.basic_ack(method.delivery_tag)
        else:
            self._tags.append(method.delivery_tag)

    def ack(self):
        """Acknowledge the oldest message that is not."""
        self.channel.basic_ack(self._tags.pop(0))

    def look(self):
        """What it has by now."""
        self.channel.connection.process_data_events(0)
        return self.bodies

    def wait_for(self, condition, what):
        self._node.wait_until(lambda: condition(self.look()), what)

    def wait_for_count(self, count):
        self.wait_for(lambda bodies: len(bodies) >= count, f"{count} messages come")


def dashed(value):
    return {key.replace("_", "-"): one for key, one in value.items()}


def uri_of(node, vhost, user="guest:guest"):
    return f"amqp://{user}@127.0.0.1:{node.port}/{vhost}"


def test_messages_come_when_there_is_a_consumer_and_not_before(here, there):
    there.publish([b"one"], message_id="m", headers={"n": 1})
    here.channel.queue_declare("q", durable=True)
    here.federate(there.uri)
    here.wait_for_link()
    assert (there.count(), there.consumers(), here.count()) == (1, [], 0)
    taker = Taker(here)
    taker.wait_for_count(1)
    there.node.wait_until(lambda: there.count() == 0, "it is acknowledged")
    assert there.consumers() == [-1]
    (headers,) = taker.headers
    assert headers == {
        "n": 1, "x-original-exchange": "", "x-original-routing-key": "q",
        "x-received-from": [
            {
                "uri": f"amqp://127.0.0.1:{there.node.port}/{there.vhost}", "queue": "q",
                "redelivered": False, "visit-count": 1,
            }
        ],
    }  # fmt: skip
    taker.channel.basic_cancel(taker.tag)
    there.node.wait_until(lambda: there.consumers() == [], "the link no longer consumes")
    there.publish([b"stays"])
    assert (there.count(), here.count()) == (1, 0)


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_all_messages_come_in_their_order(here, there, ack_mode):
    there.publish(BODIES)
    here.federate(there.uri, ack_mode=ack_mode, prefetch_count=50)
    taker = Taker(here, prefetch=20)
    taker.wait_for_count(len(BODIES))
    assert taker.bodies == BODIES
    there.node.wait_until(lambda: there.count() == 0, "all are acknowledged")


def test_messages_do_not_go_back_while_a_consumer_is_full_for_a_moment(here, there):
    there.publish([body.ljust(1000) for body in BODIES * 4])
    here.federate(there.uri)
    taker = Taker(here, prefetch=100)
    taker.wait_for_count(len(BODIES) * 4)
    places = [one for headers in taker.headers for one in headers["x-received-from"]]
    assert not any(place["redelivered"] for place in places)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_busy_consumer_does_not_draw_everything(here, there, kind):
    there.publish(BODIES[:50])
    here.channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    here.federate(there.uri, prefetch_count=5)
    taker = Taker(here, prefetch=1, acks=False, durable=False)
    taker.wait_for_count(1)
    there.node.wait_until(lambda: there.consumers() == [], "the link no longer consumes")
    here.node.wait_until(
        lambda: (here.count() or 0) + there.count() == 50, "what was on its way is moved"
    )
    # At most two runs of five: the first is confirmed before the queue has seen that it is busy.
    assert 1 <= here.count() <= 10
    for number in range(1, 50):
        taker.ack()
        taker.wait_for_count(number + 1)
    assert taker.bodies == BODIES[:50]


def test_only_consumers_of_a_priority_that_is_not_negative_draw_messages(here, there):
    there.publish([b"stays"])
    here.federate(there.uri)
    low = Taker(here, priority=-1)
    here.wait_for_link()
    assert there.consumers() == []
    low.channel.basic_cancel(low.tag)
    Taker(here, priority=0).wait_for_count(1)


def test_consumers_of_the_upstream_come_first(here, there):
    here.federate(there.uri)
    near, upstream = Taker(here), Taker(there)
    there.node.wait_until(lambda: sorted(there.consumers()) == [-1, 0], "both consume")
    there.publish(BODIES[:20])
    upstream.wait_for_count(20)
    assert (upstream.bodies, near.look()) == (BODIES[:20], [])


def test_two_brokers_that_federate_each_other_do_not_pass_messages_to_and_fro(here, there):
    here.channel.queue_declare("q", durable=True)
    there.channel.queue_declare("q", durable=True)
    here.federate(there.uri)
    there.federate(here.uri)
    here.wait_for_link()
    there.wait_for_link()
    here.publish([b"here %d" % number for number in range(100)])
    there.publish([b"there %d" % number for number in range(100)])
    taker = Taker(here, prefetch=7)
    taker.wait_for_count(200)
    assert len(set(taker.bodies)) == 200
    here.node.wait_until(lambda: here.count() == 0, "all are acknowledged")
    there.node.wait_until(lambda: there.count() == 0, "all are acknowledged there")
    assert len(taker.look()) == 200
    for body, headers in zip(taker.bodies, taker.headers, strict=True):
        came = [place["visit-count"] for place in (headers or {}).get("x-received-from", [])]
        assert came == ([1] if body.startswith(b"there") else [])


def test_messages_follow_the_consumer_from_broker_to_broker(here, there):
    here.federate(there.uri)
    there.federate(here.uri)
    here.publish(BODIES[:50])
    there.publish(BODIES[50:100])
    found = []
    for place in itertools.islice(itertools.cycle((here, there)), 10):
        taker = Taker(place, prefetch=1)
        taker.wait_for_count(5)
        taker.channel.connection.close()
        # What was delivered and not acknowledged comes again.
        found += taker.bodies
    taker = Taker(here)
    taker.wait_for(lambda bodies: {*found, *bodies} >= set(BODIES[:100]), "all have come")


def test_the_upstream_is_killed_in_the_middle_and_nothing_is_lost(here, tmp_path):
    broken = ServedNode(tmp_path)
    try:
        upstream = Place(broken, "/")
        upstream.channel.queue_declare("q", durable=True)
        upstream.publish(BODIES)
        here.federate(uri_of(broken, "%2F"), prefetch_count=10)
        taker = Taker(here, prefetch=3)
        taker.wait_for_count(1)
        broken.process.send_signal(signal.SIGKILL)
        broken.process.wait()
        broken.start()
        taker.wait_for(lambda bodies: set(bodies) == set(BODIES), "all have come")
        broken.wait_until(lambda: ready(broken, "%2F", "q") == 0, "all are acknowledged")
    finally:
        broken.stop()


def test_a_queue_that_is_missing_upstream_is_declared_as_it_is_here(here, there):
    arguments = {"x-max-length": 7, "x-queue-mode": "lazy"}
    here.channel.queue_declare("q", auto_delete=True, arguments=arguments)
    here.federate(there.uri)
    here.wait_for_link()
    found = there.node.get(f"queues/{there.vhost}/q")
    assert (found["durable"], found["auto_delete"]) == (False, True)
    assert found["arguments"] == arguments


def test_a_queue_may_have_another_name_upstream(here, there):
    there.publish([b"one"], queue="other")
    here.federate(there.uri, queue="other", consumer_tag="mine")
    taker = Taker(here)
    taker.wait_for_count(1)
    (consumer,) = there.node.get(f"queues/{there.vhost}/other")["consumer_details"]
    assert consumer["consumer_tag"] == "mine"
    (came,) = taker.headers[0]["x-received-from"]
    assert came["queue"] == "q"


def test_a_queue_gets_messages_from_several_upstreams(here, there):
    for name in ("one", "two"):
        there.publish([name.encode()], queue=name)
        value = {"uri": there.uri, "queue": name}
        answer = here.node.put(
            f"parameters/federation-upstream/{here.vhost}/{name}", {"value": value}
        )
        assert answer.status == 201
    policy = {"pattern": "^q$", "definition": {"federation-upstream-set": "all"}}
    assert here.node.put(f"policies/{here.vhost}/federated", policy).status == 201
    taker = Taker(here)
    taker.wait_for_count(2)
    assert set(taker.bodies) == {b"one", b"two"}
    taker.channel.basic_cancel(taker.tag)
    for name in ("one", "two"):
        there.node.wait_until(lambda name=name: there.consumers(name) == [], "nobody consumes")


def test_the_link_ends_with_its_policy_and_begins_with_its_queue(here, there):
    here.federate(there.uri)
    taker = Taker(here)
    there.node.wait_until(lambda: there.count() == 0, "the queue is declared there")
    there.node.wait_until(lambda: there.consumers() == [-1], "the link consumes")
    here.node.delete(f"policies/{here.vhost}/federated")
    there.node.wait_until(lambda: there.consumers() == [], "the link has ended")
    there.publish([b"one"])
    here.channel.queue_delete("q")
    here.federate(there.uri)
    assert (there.count(), taker.look()) == (1, [])
    Taker(here).wait_for_count(1)


def test_a_queue_that_is_deleted_takes_nothing_with_it(here, there):
    here.federate(there.uri)
    taker = Taker(here)
    there.node.wait_until(lambda: there.count() == 0, "the queue is declared there")
    there.node.wait_until(lambda: there.consumers() == [-1], "the link consumes")
    here.channel.queue_delete("q")
    there.node.wait_until(lambda: there.consumers() == [], "the link has ended")
    there.publish(BODIES[:20])
    assert (there.count(), taker.look()) == (20, [])


def test_a_queue_that_is_deleted_upstream_is_declared_again(here, there):
    here.federate(there.uri)
    taker = Taker(here)
    there.node.wait_until(lambda: there.count() == 0, "the queue is declared there")
    there.node.wait_until(lambda: there.consumers() == [-1], "the link consumes")
    there.channel.queue_delete("q")
    there.node.wait_until(lambda: there.count() == 0, "the queue is declared again")
    there.publish([b"one"])
    taker.wait_for_count(1)
    assert "the upstream has cancelled the consumer" in here.node.log


@pytest.mark.parametrize(
    ("upstream", "reason"),
    [
        (lambda there: f"amqp://127.0.0.1:{free_port()}", "cannot be reached"),
        (lambda there: uri_of(there.node, there.vhost, "guest:secret"), "ACCESS_REFUSED"),
        (lambda there: uri_of(there.node, "nowhere"), "vhost nowhere not found"),
        (lambda there: uri_of(there.node, there.vhost, "reader:secret"), "403, ACCESS_REFUSED"),
    ],
)
def test_why_a_link_does_not_run_is_said_without_passwords(here, there, upstream, reason):
    user = {"password": "secret", "tags": ""}
    assert there.node.put("users/reader", user).status in (201, 204)
    permission = {"configure": ".*", "write": ".*", "read": ""}
    there.node.put(f"permissions/{there.vhost}/reader", permission)
    here.federate(upstream(there))
    Taker(here)
    link = f"federation link of queue 'q' in vhost '{here.vhost}' to upstream 'u' has stopped"

    def reasons():
        return [line for line in here.node.log.splitlines() if link in line and reason in line]

    here.node.wait_until(reasons, "the reason is in the log")
    assert "secret" not in here.node.log


@pytest.mark.parametrize("uri", [lambda here: f"amqp:///{here.vhost}", lambda here: here.uri])
def test_a_queue_that_is_its_own_upstream_is_told(here, uri):
    here.publish([b"stays"])
    here.federate(uri(here))
    link = f"federation link of queue 'q' in vhost '{here.vhost}' to upstream 'u' has stopped"
    told = f"{link}, and starts again in 1 s: queue 'q' is its own upstream"
    here.node.wait_until(lambda: told in here.node.log, "the reason is in the log")
    assert take_all(here.channel, "q") == [b"stays"]


def test_queues_of_exchange_links_are_not_federated(here, there):
    here.channel.queue_declare("q", arguments={"x-internal-purpose": "federation"})
    here.channel.queue_declare("q2")
    here.federate(there.uri, pattern="^q")
    here.wait_for_link("q2")
    assert [one["name"] for one in there.node.get(f"queues/{there.vhost}")] == ["q2"]


def test_odd_and_very_long_headers_stop_no_link_and_lose_no_message(here, there):
    for number, headers in enumerate(ODD_HEADERS):
        there.publish([b"%d" % number], headers=headers)
    here.federate(there.uri)
    taker = Taker(here)
    taker.wait_for_count(len(ODD_HEADERS))
    assert taker.bodies == [b"%d" % number for number in range(len(ODD_HEADERS))]


def test_an_exclusive_queue_gets_messages_too(here, there):
    there.publish([b"one"])
    here.channel.queue_declare("q", exclusive=True)
    here.federate(there.uri)
    taken = []
    here.channel.basic_consume("q", lambda *message: taken.append(message[3]))
    here.node.wait_until(
        lambda: here.channel.connection.process_data_events(0) or taken, "the message comes"
    )
    assert taken == [b"one"]
