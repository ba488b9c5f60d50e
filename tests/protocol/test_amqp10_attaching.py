"""AMQP 1.0: the answer to an attach, and the first messages of a link."""

import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.config.amqp10_settings import Amqp10Settings
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Detach,
    End,
    Flow,
    Source,
    Target,
    Transfer,
    encode_performative,
    frame,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Node, bodies, frame_with

RECEIVING = Attach("link 0", 0, RECEIVER, source=Source("/queues/q"), target=Target())
CREDIT = Flow(None, 1000, 0, 1000, 0, 0, 10)


async def reader_of(node, *contents, queue_type="classic"):
    """A client, and these messages in the queue `q`."""
    await node.declare("q", queue_type=queue_type)
    writer = await node.client()
    await writer.publisher("/queues/q", 9)
    for content in contents:
        await writer.publish(content, 9)
    return await node.client()


# The first messages


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("drain", [False, True])
async def test_messages_follow_the_answer_if_credit_came_before_it(queue_type, drain):
    clock = VirtualClock()
    async with Amqp10Node(clock, is_lone=True) as node:
        reader = await reader_of(node, "a", "b", queue_type=queue_type)
        source = Source("/queues/q", filter=FROM_THE_FIRST if queue_type == "stream" else None)
        attach, credit = RECEIVING._replace(source=source), CREDIT._replace(drain=drain)
        reader.send_bytes(frame_with(attach) + frame_with(credit))
        assert [type(one.performative) for one in await reader.frames()] == [Attach]
        clock.advance(0.010)
        sent = await reader.frames()
        messages = [one for one in sent if isinstance(one.performative, Transfer)]
        assert [one.message.data for one in messages] == [b"a", b"b"]
        flows = [one.performative for one in sent if isinstance(one.performative, Flow)]
        assert [(one.link_credit, one.drain) for one in flows] == [(0, True)] * drain
        reader.credit(0, 10, delivery_count=10 if drain else 2)
        assert await reader.received() == []


async def test_a_client_that_has_waited_for_the_answer_gets_messages_at_once():
    async with Amqp10Node(VirtualClock()) as node:
        reader = await reader_of(node, "a")
        await reader.consumer("/queues/q")
        assert bodies(await reader.received()) == ["a"]


@pytest.mark.parametrize("last", [Detach(0, True), End(None)], ids=["detach", "end"])
async def test_a_link_may_end_before_its_first_messages(last):
    clock = VirtualClock()
    async with Amqp10Node(clock) as node:
        reader = await reader_of(node, "a")
        reader.send_bytes(frame_with(RECEIVING) + frame_with(CREDIT))
        reader.send(last)
        await reader.frames()
        clock.advance(1)
        assert await reader.frames() == []
        assert node.queue("q").backing.ready_count == 1


FROM_THE_FIRST = Value("map", [(
    Value("symbol", "from"),
    Value("described", (Value("symbol", "rabbitmq:stream-offset-spec"), Value("string", "first"))),
)])  # fmt: skip

# The answer


async def answer(node, **changes):
    reader = await node.client()
    source = Source("/queues/q", **changes.pop("source", {}))
    return (await reader.answers(RECEIVING._replace(source=source, **changes)))[0]


@pytest.mark.parametrize(
    ("compat", "queue_type", "wish", "mode"),
    [
        ("4.0", "classic", None, None),
        ("4.0", "classic", "copy", "copy"),
        ("4.x", "classic", None, "move"),
        ("4.x", "classic", "copy", "move"),
        ("4.x", "quorum", None, "move"),
        ("4.x", "stream", "move", "copy"),
    ],
)
async def test_the_distribution_mode_is_that_of_the_queue_since_4_3(compat, queue_type, wish, mode):
    async with Amqp10Node(is_lone=True, compat=compat) as node:
        await node.declare("q", queue_type=queue_type)
        told = await answer(node, source={"distribution_mode": wish})
        assert told.source.distribution_mode == mode


@pytest.mark.parametrize(
    ("compat", "queue_type", "offered"),
    [
        ("4.0", "stream", None),
        ("4.x", "stream", ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"]),
        ("4.x", "classic", None),
    ],
)
async def test_streams_offer_their_filters_since_4_2(compat, queue_type, offered):
    async with Amqp10Node(is_lone=True, compat=compat) as node:
        await node.declare("q", queue_type=queue_type)
        assert (await answer(node)).offered_capabilities == offered


async def test_the_limit_and_the_outcomes_of_the_client_are_repeated():
    async with Amqp10Node() as node:
        await node.declare("q")
        known = ["amqp:accepted:list", "amqp:released:list"]
        told = await answer(node, source={"outcomes": known}, max_message_size=5000)
        assert (told.max_message_size, told.source.outcomes) == (5000, known)
        end = await answer(node, source={"outcomes": [*known, "amqp:mine:list"]})
        assert end.error[:2] == (
            "amqp:not-implemented", 'Outcomes not supported: [{symbol,<<"amqp:mine:list">>}]',
        )  # fmt: skip


# Errors


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
@pytest.mark.parametrize(("compat", "verb"), [("4.0", "rejected"), ("4.x", "refused")])
async def test_addresses_of_version_1_may_be_forbidden(compat, verb, role):
    forbidden = Amqp10Settings(permits_addresses_of_version_1=False)
    async with Amqp10Node(compat=compat, amqp10=forbidden) as node:
        await node.declare("q")
        client = await node.client()
        place = {"source": Source("/queue/q"), "target": Target("/queue/q")}
        error = (await client.answers(Attach("l", 0, role, **place)))[-1].error
        assert error[:2] == (
            "amqp:invalid-field",
            f'Attach {verb}: {{amqp_address_v1_not_permitted,{{utf8,<<"/queue/q">>}}}}',
        )


@pytest.mark.parametrize(("compat", "told"), [("4.0", End), ("4.x", Detach)])
async def test_transactions_are_refused(compat, told):
    async with Amqp10Node(compat=compat) as node:
        client = await node.client()
        attach = encode_performative(Attach("l", 0, SENDER, source=Source(), target=Target()))
        target, coordinator = encode_performative(Target()), b"\0\x53\x30\x45"
        assert len(target) == len(coordinator)
        client.send_bytes(frame(0, attach.replace(target, coordinator)))
        refusal = (await client.frames())[-1].performative
        assert isinstance(refusal, told)
        assert refusal.error[:2] == ("amqp:not-implemented", "Transactions not supported")


async def test_a_link_keeps_nothing_of_its_properties():
    """They may take megabytes, and a connection may have 16,384 links."""
    own = Value("map", [(Value("symbol", "mine"), Value("null", None))])
    async with Amqp10Node() as node:
        await node.declare("q")
        client = await node.client()
        await client.publisher("/queues/q", 0, properties=own)
        await client.consumer("/queues/q", 1, credit=0, properties=own)
        session = client.connection.incoming.sessions[0]
        links = (session.incoming[0], session.outgoing[1])
        assert [link.request.properties for link in links] == [None, None]


async def test_a_link_to_a_client_has_a_source():
    async with Amqp10Node(compat="4.x") as node:
        client = await node.client()
        _, detach = await client.answers(Attach("l", 0, RECEIVER, target=Target()))
        assert detach.error[:2] == ("amqp:invalid-field", "Attach refused: source_required")


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
async def test_a_handle_that_is_in_use_ends_the_session_since_4_3(role):
    async with Amqp10Node(compat="4.x") as node:
        await node.declare("q")
        client = await node.client()
        await client.consumer("/queues/q", 3)
        again = Attach("other", 3, role, source=Source("/queues/q"), target=Target("/queues/q"))
        (end,) = await client.answers(again)
        assert end.error[:2] == (
            "amqp:session:handle-in-use", "handle 3 is already associated with a link",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("compat", "text"),
    [("3.12", "NOT_FOUND - no queue 'q' in vhost '/'"), ("4.0", "no queue 'q' in vhost '/'")],
)
async def test_errors_of_operations_begin_with_the_name_of_their_code_before_4(compat, text):
    async with Amqp10Node(compat=compat, plugins=("rabbitmq_amqp1_0",)) as node:
        client = await node.client()
        (end,) = await client.consumer("/amq/queue/q", credit=0)
        assert end.error[:2] == ("amqp:not-found", text)
