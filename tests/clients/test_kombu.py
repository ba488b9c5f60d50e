"""kombu: producers, consumers, simple queues, and the mailboxes of Celery's remote control."""

import kombu
import pytest
from kombu.pidbox import Mailbox

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def connection(amqp_url):
    with kombu.Connection(amqp_url) as connection:
        yield connection


def test_a_producer_and_a_consumer(connection):
    exchange = kombu.Exchange("tasks", "direct", durable=True)
    queue = kombu.Queue("tasks", exchange, routing_key="tasks")
    received = []

    def take(body, message):
        received.append(body)
        message.ack()

    with connection.Producer() as producer:
        producer.publish({"n": 1}, exchange=exchange, routing_key="tasks", declare=[queue])
    with connection.Consumer(queue, callbacks=[take]):
        connection.drain_events(timeout=PATIENCE_SECONDS)
    assert received == [{"n": 1}]


def test_a_simple_queue(connection):
    with connection.SimpleQueue("simple") as queue:
        queue.put({"hello": "world"})
        message = queue.get(timeout=PATIENCE_SECONDS)
        message.ack()
        assert message.payload == {"hello": "world"}


def test_a_mailbox_takes_calls(connection):
    mailbox = Mailbox("test", type="direct")
    bound = mailbox(connection)
    calls = []
    node = bound.Node("worker@here", state={})
    node.handlers["note"] = lambda state, **arguments: calls.append(arguments)
    with node.listen(channel=connection.channel()):
        bound.cast(["worker@here"], "note", {"n": 1})
        connection.drain_events(timeout=PATIENCE_SECONDS)
    assert calls == [{"n": 1}]


def test_priorities(connection):
    queue = kombu.Queue("p", max_priority=5)(connection.channel())
    queue.declare()
    with connection.Producer() as producer:
        for priority in (1, 5, 3):
            producer.publish(priority, routing_key="p", priority=priority)
    taken = [queue.get(no_ack=True).payload for _ in range(3)]
    assert taken == [5, 3, 1]


def test_a_mailbox_asks_everyone(connection):
    mailbox = Mailbox("test", type="fanout")
    bound = mailbox(connection)
    channel = connection.channel()
    for name in ("one@here", "two@here"):
        node = bound.Node(name, state=name, channel=channel)
        node.handlers["who"] = lambda state, **_: state
        node.listen(channel=channel)

    # The nodes read from the caller's connection: they answer while it waits.
    answers = bound.multi_call("who", timeout=PATIENCE_SECONDS, limit=2)
    assert sorted(answers, key=str) == [{"one@here": "one@here"}, {"two@here": "two@here"}]


def test_confirms_and_returned_messages(amqp_url):
    returned = []
    with kombu.Connection(amqp_url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer(on_return=lambda error, *_: returned.append(error))
        producer.publish("x", routing_key="nowhere")
        producer.publish("x", routing_key="nowhere", mandatory=True)
    assert [(error.reply_code, error.reply_text) for error in returned] == [(312, "NO_ROUTE")]


def test_a_rejected_message_comes_again(connection):
    with connection.SimpleQueue("simple") as queue:
        queue.put("x")
        queue.get(timeout=PATIENCE_SECONDS).requeue()
        message = queue.get(timeout=PATIENCE_SECONDS)
        assert message.delivery_info["redelivered"]
        message.reject()
        with pytest.raises(queue.Empty):
            queue.get_nowait()


def test_a_producer_reconnects(amqp_broker, connection):
    queue = kombu.Queue("q", durable=True)
    producer = connection.Producer()
    producer.publish("before", routing_key="q", declare=[queue])
    amqp_broker.drop_connections()
    producer.publish("after", routing_key="q", retry=True, retry_policy={"max_retries": 3})
    bound = queue(connection.channel())
    assert [bound.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]
