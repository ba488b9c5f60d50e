"""AMQP 1.0: filters of links from streams, and which of them the answer to the attach names."""

import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    Attach,
    Flow,
    Source,
    Target,
    Transfer,
)
from tests.protocol.amqp10_peer import Amqp10Node, bodies, encoded, frame_with, text


def symbol(content):
    return Value("symbol", content)


def described(descriptor, content):
    return Value("described", (descriptor, content))


FIRST = symbol("offset"), described(symbol("rabbitmq:stream-offset-spec"), text("first"))


def sql(expression, name="sql-filter"):
    return symbol(name), described(symbol("amqp:sql-filter"), text(expression))


def property_filter(**fields):
    pairs = [(symbol(name.replace("_", "-")), value) for name, value in fields.items()]
    return symbol("p"), described(symbol("amqp:properties-filter"), Value("map", pairs))


def application_filter(**fields):
    pairs = [(text(name), value) for name, value in fields.items()]
    return symbol("a"), described(Value("ulong", 0x174), Value("map", pairs))


@pytest.fixture
async def client():
    """A client, which publishes to the stream `s` on handle 9."""
    async with Amqp10Node(compat="4.x", is_lone=True) as node:
        await node.declare("s", queue_type="stream")
        client = await node.client()
        await client.publisher("/queues/s", 9)
        yield client


async def published(client, **subjects):
    """Publish messages with these bodies and subjects, which say their country, too."""
    for body, subject in subjects.items():
        await client.publish(
            body, 9, properties={"subject": text(subject)},
            application_properties=[(text("country"), text(subject[:2]))],
        )  # fmt: skip


async def attached(client, *filters, address="/queues/s"):
    """Attach a link with filters; returns the names of those that are in force."""
    source = Source(address, filter=Value("map", list(filters)))
    [answer] = await client.answers(Attach("l", 0, RECEIVER, source=source, target=Target()))
    return [name.value for name, _ in answer.source.filter.value]


async def received(client, count):
    """Give credit, and receive as many messages."""
    client.credit(0, 100)
    found = bodies(await client.received())
    while len(found) < count:
        found += bodies(await client.received())
    return found + bodies(await client.received())


async def test_a_link_gets_the_messages_that_its_sql_selects(client):
    await published(client, a="UK 1", b="DE 2", c="UK 3", d="UK 30")
    names = await attached(client, FIRST, sql("country = 'UK' AND p.subject LIKE '%3%'"))
    assert names == ["offset", "sql-filter"]
    assert await received(client, 2) == ["c", "d"]


async def test_a_link_gets_the_messages_with_wanted_properties(client):
    await published(client, a="UK 1", b="DE 2", c="UK 3", d="DE 33")
    filters = [
        FIRST, property_filter(subject=text("&s:3")), application_filter(country=text("DE")),
    ]  # fmt: skip
    assert await attached(client, *filters) == ["offset", "p", "a"]
    assert await received(client, 1) == ["d"]


async def test_a_link_without_a_valid_filter_is_told_so(client, caplog):
    assert await attached(client, FIRST, sql("country =")) == ["offset"]
    assert "the filter 'sql-filter' of a link is not valid: a value is expected" in caplog.text
    assert "at position 10" in caplog.text


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ([sql("TRUE"), property_filter(to=text("x"))], ["p"]),
        ([property_filter(to=text("x")), sql("TRUE")], ["sql-filter"]),
        ([property_filter(to=text("x")), property_filter(subject=text("x"))], ["p"]),
        ([sql("TRUE", name="other")], []),
        ([(symbol("x"), described(symbol("unknown:filter"), text("x")))], []),
        ([(symbol("x"), text("no descriptor"))], []),
        ([(symbol("rabbitmq:stream-offset-spec"), text("first"))], ["rabbitmq:stream-offset-spec"]),
        ([(symbol("x"), described(symbol("rabbitmq:stream-filter"), Value("int", 5)))], []),
        ([(symbol("x"), described(symbol("amqp:sql-filter"), Value("int", 5)))], []),
    ],
)
async def test_filters_that_are_in_force(client, filters, names):
    assert await attached(client, *filters) == names


async def test_other_queues_have_no_such_filters(client):
    await client.publisher("/queue/q", 8)
    assert await attached(client, FIRST, sql("TRUE"), address="/queues/q") == ["offset"]


async def test_a_drain_ends_when_the_filter_has_seen_the_whole_stream(client):
    transfers = [Transfer(9, number, b"t", 0, True) for number in range(160)]
    client.send_bytes(b"".join(frame_with(one, encoded("noise")) for one in transfers))
    await client.publish("found", 9, properties={"subject": text("x")})
    await attached(client, FIRST, sql("p.subject = 'x'"))
    client.credit(0, 5, drain=True)
    answers = []
    while not any(isinstance(one.performative, Flow) for one in answers):
        answers += await client.frames()
    transfer, flow = answers
    assert transfer.message.data == b"found"
    assert (flow.performative.drain, flow.performative.delivery_count) == (True, 5)
    client.credit(0, 2, delivery_count=5, drain=True)
    [flow] = await client.frames()
    assert (flow.performative.drain, flow.performative.delivery_count) == (True, 7)
