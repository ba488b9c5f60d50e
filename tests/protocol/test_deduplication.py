"""Queues and exchanges refuse messages whose identifier they know, as RabbitMQ's plugin does."""

import pika
import pytest

from tests.stored_broker import started

DEDUPLICATION = {"x-message-deduplication": True}
KINDS = [{}, {"x-max-priority": 5}, {"x-queue-type": "quorum"}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["classic", "priority", "quorum"])


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    running = started(tmp_path_factory.mktemp("data"))
    yield running
    running.stop()


@pytest.fixture
def channel(node):
    return opened(node)


def opened(node):
    """A channel with confirms."""
    channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
    channel.confirm_delivery()
    return channel


def publish(channel, identifier, body=b"", mandatory=True, **properties):
    """Publish with a confirm; raises if the message is returned or refused."""
    headers = {} if identifier is None else {"x-deduplication-header": identifier}
    wanted = pika.BasicProperties(headers=headers, delivery_mode=2, **properties)
    channel.basic_publish("", "q", body, wanted, mandatory)


def declare(channel, kind, **arguments):
    channel.queue_delete("q")
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare("q", durable=True, arguments=DEDUPLICATION | kind | named)


def bodies(channel, count, auto_ack=True):
    return [channel.basic_get("q", auto_ack)[2] for _ in range(count)]


def left(channel):
    return channel.queue_declare("q", passive=True).method.message_count


@every_kind
def test_a_duplicate_is_confirmed_and_not_added(channel, kind):
    declare(channel, kind)
    publish(channel, "a", b"1")
    publish(channel, "b", b"2")
    publish(channel, "a", b"3")
    publish(channel, None, b"4")
    publish(channel, None, b"5")
    assert bodies(channel, 5) == [b"1", b"2", b"4", b"5", None]


@every_kind
def test_an_identifier_is_forgotten_when_its_message_is_acknowledged(channel, kind):
    declare(channel, kind)
    publish(channel, "a", b"1")
    method, _, _ = channel.basic_get("q")
    publish(channel, "a", b"2")
    assert left(channel) == 0
    channel.basic_nack(method.delivery_tag)
    publish(channel, "a", b"3")
    method, _, body = channel.basic_get("q")
    assert body == b"1"
    channel.basic_ack(method.delivery_tag)
    publish(channel, "a", b"4")
    assert bodies(channel, 2) == [b"4", None]


@every_kind
def test_it_is_known_for_a_time_if_that_is_wanted(channel, kind):
    declare(channel, kind, cache_ttl=3_600_000, cache_size=1)
    publish(channel, "a", b"1")
    assert bodies(channel, 1) == [b"1"]
    publish(channel, "a", b"2")
    publish(channel, "b", b"3")
    publish(channel, "a", b"4")
    assert bodies(channel, 3) == [b"3", b"4", None]


@pytest.mark.parametrize("leaves", ["expired", "purged", "dropped", "rejected"])
@every_kind
def test_it_is_forgotten_when_its_message_leaves_in_another_way(channel, kind, leaves):
    declare(channel, kind, max_length=1)
    if leaves == "expired":
        publish(channel, "a", b"1", expiration="0")
    else:
        publish(channel, "a", b"1")
    if leaves == "purged":
        channel.queue_purge("q")
    elif leaves == "dropped":
        publish(channel, "b", b"2")
    elif leaves == "rejected":
        channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
    publish(channel, "a", b"3")
    assert bodies(channel, 2) == [b"3", None]


@pytest.mark.parametrize(
    ("identifier", "problem"),
    [({"a": 1}, "a table cannot"), ([1], "an array cannot"), ("x" * 100_000, "has 100000 bytes")],
    ids=["table", "array", "100 KB"],
)
def test_what_cannot_be_an_identifier_closes_the_channel(channel, identifier, problem):
    declare(channel, {})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        publish(channel, identifier)
    assert closed.value.reply_code == 406
    assert problem in closed.value.reply_text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x-message-deduplication": "yes"}, "{unacceptable_type,longstr}"),
        ({"x-cache-size": 0}, "got 0"),
        ({"x-cache-size": -1}, "got -1"),
        ({"x-cache-size": "many"}, "got 'many'"),
        ({"x-cache-size": 1 << 40}, "expected an integer from 1 to 10000000"),
        ({"x-cache-ttl": 0}, "got 0"),
        ({"x-queue-type": "stream"}, "of queue type rabbit_stream_queue"),
    ],
)
def test_wrong_arguments_are_refused(channel, arguments, problem):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("r", durable=True, arguments=DEDUPLICATION | arguments)
    assert closed.value.reply_code == 406
    assert problem in closed.value.reply_text


@every_kind
def test_publishers_that_repeat_after_a_restart_need_nothing_else(tmp_path, kind):
    first = started(tmp_path)
    channel = opened(first)
    declare(channel, kind)
    for number in range(300):
        publish(channel, number, b"%d" % number)
    first.stop()
    second = started(tmp_path)
    channel = opened(second)
    for number in range(301):
        publish(channel, number, b"again")
    assert left(channel) == 301
    second.stop()


# Exchanges


def declare_exchange(channel, **arguments):
    """An exchange that leads to the queue q, which takes duplicates."""
    channel.queue_delete("q")
    channel.exchange_delete("x")
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.exchange_declare("x", "x-message-deduplication", durable=True, arguments=named)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "x")


def send(channel, identifier, body=b"", mandatory=False, **headers):
    """Publish to the exchange, with a confirm."""
    if identifier is not None:
        headers["x-deduplication-header"] = identifier
    wanted = pika.BasicProperties(headers=headers, delivery_mode=2)
    channel.basic_publish("x", "any key", body, wanted, mandatory)


def test_a_message_passes_an_exchange_once_and_is_confirmed_again(channel):
    declare_exchange(channel, cache_size=10)
    for identifier, body in (("a", b"1"), ("a", b"2"), ("b", b"3"), (None, b"4"), (None, b"5")):
        send(channel, identifier, body)
    assert bodies(channel, 5) == [b"1", b"3", b"4", b"5", None]
    send(channel, "a")
    assert left(channel) == 0, "it is known although its message has left"


def test_a_message_that_no_queue_has_taken_may_be_repeated(channel):
    declare_exchange(channel, cache_size=10)
    channel.queue_delete("q")
    channel.queue_declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    send(channel, "a", b"1")
    channel.queue_bind("q", "x")
    send(channel, "a", b"2")
    with pytest.raises(pika.exceptions.NackError):
        send(channel, "b", b"3")
    assert bodies(channel, 1) == [b"2"]
    send(channel, "b", b"4")
    assert bodies(channel, 1) == [b"4"]


def test_a_mandatory_duplicate_is_returned_as_with_the_plugin(channel):
    declare_exchange(channel, cache_size=10)
    send(channel, "a", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError) as returned:
        send(channel, "a", mandatory=True)
    assert returned.value.messages[0].method.reply_code == 312


def test_duplicates_go_to_the_alternate_exchange_as_with_the_plugin(channel):
    declare_exchange(channel, cache_size=10)
    channel.exchange_delete("x")
    channel.queue_delete("duplicates")
    channel.queue_declare("duplicates")
    channel.exchange_declare(
        "x", "x-message-deduplication",
        arguments={"x-cache-size": 10, "alternate-exchange": "amq.fanout"},
    )  # fmt: skip
    channel.queue_bind("q", "x")
    channel.queue_bind("duplicates", "amq.fanout")
    send(channel, "a", b"1")
    send(channel, "a", b"2")
    assert bodies(channel, 2) == [b"1", None]
    assert channel.basic_get("duplicates", auto_ack=True)[2] == b"2"


def test_a_message_that_passes_two_exchanges_is_confirmed_once(channel):
    declare_exchange(channel, cache_size=10, cache_persistence="disk")
    channel.exchange_delete("y")
    channel.exchange_declare(
        "y", "x-message-deduplication", durable=True,
        arguments={"x-cache-size": 10, "x-cache-persistence": "disk"},
    )  # fmt: skip
    channel.exchange_bind("y", "x")
    channel.queue_unbind("q", "x")
    channel.queue_bind("q", "y")
    send(channel, "a", b"1")
    send(channel, "a", b"2")
    assert bodies(channel, 2) == [b"1", None]


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"x-deduplication-header": {"a": 1}}, "a table cannot"),
        ({"x-deduplication-header": "x" * 100_000}, "has 100000 bytes"),
        ({"x-deduplication-header": "a", "x-cache-ttl": -1}, "must be a number of milliseconds"),
        ({"x-deduplication-header": "a", "x-cache-ttl": "soon"}, "must be a number of"),
    ],
    ids=["table", "100 KB", "negative time", "text as time"],
)
def test_wrong_headers_close_the_channel(channel, headers, problem):
    declare_exchange(channel, cache_size=10)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        send(channel, None, **headers)
    assert closed.value.reply_code == 406
    assert problem in closed.value.reply_text


def test_an_exchange_on_disk_knows_its_identifiers_after_a_restart(tmp_path):
    first = started(tmp_path)
    channel = opened(first)
    declare_exchange(channel, cache_size=1000, cache_persistence="disk")
    for number in range(300):
        send(channel, number)
    first.stop()
    second = started(tmp_path)
    channel = opened(second)
    for number in range(301):
        send(channel, number)
    assert left(channel) == 301
    channel.exchange_delete("x")
    second.stop()
