"""AMQP 1.0: links, credit, windows, outcomes in both directions, errors of a session."""

import tracemalloc

import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.performatives import (
    MIXED,
    RECEIVER,
    SENDER,
    SETTLED,
    UNSETTLED,
    Accepted,
    Attach,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
)
from tests.protocol.amqp10_peer import Amqp10Node, bodies, encoded, frame_with, text


@pytest.fixture
async def node():
    async with Amqp10Node() as node:
        yield node


async def queue_with(node, *contents):
    """A client with a queue `q`, which it publishes to on handle 9, with these messages."""
    client = await node.client()
    await client.publisher("/queue/q", 9)
    for content in contents:
        await client.publish(content, 9)
    return client


def outcomes(performatives):
    return [
        (one.first, one.last, one.state) for one in performatives if isinstance(one, Disposition)
    ]


async def test_a_publisher_has_credit_and_gets_outcomes(node):
    client = await node.client()
    attached, flow = await client.publisher("/queue/q")
    assert (attached.role, attached.target) == (RECEIVER, Target("/queue/q"))
    assert (flow.handle, flow.link_credit, flow.incoming_window) == (0, 170, 400)
    assert outcomes(await client.publish("a")) == [(0, None, Accepted())]
    assert outcomes(await client.publish("b", settled=True)) == []


async def test_outcomes_of_one_round_are_one_disposition(node):
    client = await queue_with(node, "m")
    transfers = [Transfer(9, number, b"%d" % number, 0) for number in range(1, 6)]
    client.send_bytes(b"".join(frame_with(one, encoded("m")) for one in transfers))
    answers = [one.performative for one in await client.frames()]
    assert outcomes(answers) == [(1, 5, Accepted())]


async def test_unroutable_messages_are_released(node):
    client = await node.client()
    await client.publisher("/exchanges/amq.direct/nobody")
    assert outcomes(await client.publish("m")) == [(0, None, Released())]


async def test_credit_is_given_again_at_half(node):
    client = await queue_with(node)
    flows = []
    for number in range(90):
        answers = await client.publish(f"{number}", 9)
        flows += [one.delivery_count for one in answers if isinstance(one, Flow)]
    assert flows == [85]


async def test_more_than_the_credit_detaches_the_link(node):
    client = await queue_with(node)
    client.connection.incoming.sessions[0].incoming[9].credit = 0
    [detach] = await client.publish("m", 9)
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"


async def test_credit_limits_deliveries(node):
    client = await queue_with(node, "a", "b", "c")
    await client.consumer("/queues/q", credit=2)
    assert bodies(await client.received()) == ["a", "b"]
    client.credit(0, 1, delivery_count=2)
    assert bodies(await client.received()) == ["c"]


async def test_the_window_of_a_session_limits_transfers(node):
    filler = await queue_with(node, "a", "b", "c")
    client = await (await node.connect().open()).begin(window=2)
    await client.consumer("/queues/q", credit=0)
    client.send(Flow(2**32 - 4, 2, 0, 10, 0, 0, 10))
    assert bodies(await client.received()) == ["a", "b"]
    client.send(Flow(2**32 - 2, 1, 0, 10))
    assert bodies(await client.received()) == ["c"]
    filler.disconnect()


async def test_a_drain_uses_the_credit_up(node):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q", credit=0)
    client.credit(0, 5, drain=True)
    transfer, flow = [one.performative for one in await client.frames()]
    assert isinstance(transfer, Transfer)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


async def test_a_message_in_pieces_both_ways(node):
    client = await node.client(max_frame_size=512)
    await client.publisher("/queue/q", 9)
    payload = encoded("x" * 2000)
    client.send(Transfer(9, 0, b"t", 0, more=True), payload=payload[:700])
    client.send(Transfer(9, more=True), payload=payload[700:1400])
    client.send(Transfer(9), payload=payload[1400:])
    assert outcomes([one.performative for one in await client.frames()]) == [(0, None, Accepted())]
    await client.consumer("/queues/q")
    frames = await client.frames()
    assert [one.performative.more for one in frames] == [True, True, True, True, None]
    whole = b"".join(one.payload for one in frames)
    assert frames[0]._replace(payload=whole).message.data == b"x" * 2000


async def test_an_aborted_message_is_dropped(node):
    client = await queue_with(node)
    client.send(Transfer(9, 0, b"t", 0, more=True), payload=b"abc")
    client.send(Transfer(9, aborted=True))
    assert outcomes(await client.publish("m", 9)) == [(0, None, Accepted())]


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (Accepted(), []),
        (Rejected(), []),
        (Released(), ["a"]),
        (Modified(True), ["a"]),
        (Modified(True, True), []),
    ],
)
async def test_outcomes_of_deliveries(node, outcome, again):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q", credit=1)
    assert bodies(await client.received()) == ["a"]
    client.settle(0, outcome=outcome)
    client.credit(0, 1, delivery_count=1)
    assert bodies(await client.received()) == again


def symbol(content):
    return Value("symbol", content)


def modified(is_failed=False, is_rejected=False, **annotations):
    pairs = [(symbol(f"x-{name}"), value) for name, value in annotations.items()]
    return Modified(is_failed, is_rejected, Value("map", pairs))


async def next_message(client):
    """The next message that a client gets: its delivery-id, its header and its annotations."""
    while not (found := await client.received()):
        pass
    ((transfer, message),) = found
    annotations = {key.value: value for key, value in message.message_annotations}
    return transfer.delivery_id, message.header, annotations


async def test_a_quorum_queue_adds_the_annotations_of_a_modified_outcome():
    """In RabbitMQ 4.0.5, too, an integer is a long then, and a symbol a string. A list stays one.

    There, a classic queue adds nothing.
    """
    async with Amqp10Node(compat="4.x", is_lone=True) as node:
        await node.declare("dead")
        await node.declare(
            "q", queue_type="quorum", dead_letter_exchange="", dead_letter_routing_key="dead"
        )
        publisher, client = await node.client(), await node.client()
        await publisher.publisher("/queues/q", 9)
        await client.consumer("/queues/q", 0)
        await client.consumer("/queues/dead", 1)
        await publisher.publish(
            "a",
            9,
            message_annotations=[(symbol("x-n"), Value("int", 1)), (symbol("x-kept"), text("k"))],
        )
        _, _, annotations = await next_message(client)
        assert annotations["x-n"] == Value("int", 1)
        reasons = Value("list", [text("slow")])
        client.settle(0, outcome=modified(True, n=Value("ubyte", 2), s=symbol("t"), why=reasons))
        delivery_id, header, annotations = await next_message(client)
        assert header["delivery-count"].value == 1
        assert annotations["x-n"] == Value("long", 2)
        assert annotations["x-s"] == text("t")
        assert annotations["x-kept"] == text("k")
        assert annotations["x-why"] == reasons
        assert annotations["x-acquired-count"] == Value("long", 1)
        client.settle(delivery_id, outcome=modified(False, True, s=text("u")))
        _, _, annotations = await next_message(client)
        assert annotations["x-n"] == Value("long", 2)
        assert annotations["x-s"] == text("u")


async def test_the_annotation_of_a_delivery_time_delays_a_message_since_4_3():
    async with Amqp10Node(compat="4.x", is_lone=True) as node:
        await node.declare("q", queue_type="quorum")
        publisher, client = await node.client(), await node.client()
        await publisher.publisher("/queues/q", 9)
        await client.consumer("/queues/q", 0)
        await publisher.publish("later", 9)
        await next_message(client)
        client.settle(0, outcome=modified(**{"opt-delivery-time": Value("timestamp", 1 << 60)}))
        await publisher.publish("now", 9)
        _, _, annotations = await next_message(client)
        assert "x-opt-delivery-time" not in annotations


@pytest.mark.parametrize("key", [symbol("opt"), text("x-opt"), Value("ulong", 1)])
async def test_annotations_of_other_names_end_the_session(node, key):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q")
    await client.frames()
    annotations = Value("map", [(key, text("a"))])
    client.settle(0, outcome=Modified(False, False, annotations))
    (end,) = [one.performative for one in await client.frames()]
    assert end.error.condition == "amqp:internal-error"


async def test_a_message_larger_than_the_client_takes_ends_the_session(node):
    """In RabbitMQ 4.0.5, too: condition and description. The message goes back to its queue."""
    client = await queue_with(node, "small", "large" * 100, "small")
    await client.consumer("/queues/q", max_message_size=200)
    frames = await client.frames()
    assert [one.message.data for one in frames if one.payload] == [b"small"]
    assert frames[-1].performative == End(
        Error(
            "amqp:link:message-size-exceeded",
            "message size (557 bytes) > maximum message size (200 bytes)",
        )
    )
    other = await node.client()
    await other.consumer("/queues/q")
    assert bodies(await other.received()) == ["small", "large" * 100, "small"]


async def test_of_a_settled_link_only_the_message_that_is_too_large_is_lost(node):
    client = await queue_with(node, "one", "large" * 100, "two", "more" * 100, "three")
    await client.consumer("/queues/q", max_message_size=200, snd_settle_mode=SETTLED)
    *sent, end = await client.frames()
    transfers = [one for one in sent if one.payload]
    assert [one.message.data for one in transfers] == [b"one", b"two", b"three"]
    assert [one.performative.delivery_id for one in transfers] == [0, 1, 2]
    assert end.performative.error.description.startswith("message size (557 bytes)")
    other = await node.client()
    await other.consumer("/queues/q")
    assert await other.received() == []


@pytest.mark.parametrize(
    ("mode", "settled", "told"),
    [
        (UNSETTLED, False, None),
        (UNSETTLED, True, "sender settle mode is 'unsettled' but transfer settled flag is "
                          "interpreted as being 'true'"),
        (SETTLED, True, None),
        (SETTLED, False, "sender settle mode is 'settled' but transfer settled flag is "
                         "interpreted as being 'false'"),
        (MIXED, True, None),
        (MIXED, False, None),
    ],
)  # fmt: skip
async def test_transfers_are_settled_as_the_mode_of_their_link_says(node, mode, settled, told):
    """The condition and the texts are those of RabbitMQ 4.0.5."""
    client = await queue_with(node)
    await client.publisher("/queues/q", snd_settle_mode=mode)
    answers = await client.publish("a", settled=settled)
    errors = [one.error for one in answers if isinstance(one, End)]
    assert errors == ([Error("amqp:connection:framing-error", told)] if told else [])


async def test_one_disposition_settles_a_range(node):
    client = await queue_with(node, *"abcd")
    await client.consumer("/queues/q")
    assert bodies(await client.received()) == ["a", "b", "c", "d"]
    client.settle(0, 2)
    client.settle(5, 2**31)
    assert [type(one) for one in await client.answers(End())] == [End]
    await client.begin()
    await client.consumer("/queues/q")
    assert bodies(await client.received()) == ["d"]


async def test_an_outcome_that_is_not_settled_is_settled_by_the_broker(node):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q")
    await client.received()
    [answer] = await client.answers(Disposition(RECEIVER, 0, state=Accepted()))
    assert answer == Disposition(SENDER, 0, None, True, Accepted())


async def test_a_settled_link_needs_no_outcomes(node):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q", snd_settle_mode=1)
    [(transfer, message)] = await client.received()
    assert (transfer.settled, message.data) == (True, b"a")
    assert not client.connection.incoming.sessions[0].unacked


async def test_a_detached_link_gives_its_messages_back(node):
    client = await queue_with(node, "a")
    await client.consumer("/queues/q")
    assert bodies(await client.received()) == ["a"]
    assert await client.answers(Detach(0, True)) == [Detach(0, True)]
    await client.consumer("/queues/q", 1)
    assert bodies(await client.received()) == ["a"]


async def test_a_deleted_queue_detaches_its_links(node):
    client = await queue_with(node)
    await client.consumer("/queues/q")
    node.broker.services.vhosts["/"].delete_queue(node.queue("q"), client.connection.requester)
    [detach] = [one.performative for one in await client.frames()]
    assert (detach.handle, detach.closed) == (0, True)
    assert detach.error.condition == "amqp:resource-deleted"


@pytest.mark.parametrize(
    ("request_", "condition", "description"),
    [
        (Attach("a", 0, SENDER, target=Target("/queues/missing")),
         "amqp:not-found", "no queue 'missing' in vhost '/'"),
        (Attach("a", 0, RECEIVER, source=Source("/queues/missing")),
         "amqp:not-found", "no queue 'missing' in vhost '/'"),
        (Attach("a", 0, SENDER, target=Target("/exchanges/missing/key")),
         "amqp:not-found", "no exchange 'missing' in vhost '/'"),
        (Attach("a", 0, SENDER, target=Target("/nowhere/x")),
         "amqp:invalid-field", 'Attach rejected: {unknown_destination,"/nowhere/x"}'),
        (Attach("a", 0, SENDER, target=Target("/queues/a b")),
         "amqp:invalid-field", 'Attach rejected: {bad_address_string,<<"/queues/a b">>}'),
        (Attach("a", 0, RECEIVER, source=Source(dynamic=True)),
         "amqp:not-implemented", "Dynamic sources not supported"),
        (Attach("a", 0, RECEIVER, rcv_settle_mode=1, source=Source("/queue/q")),
         "amqp:not-implemented", "rcv-settle-mode second not supported"),
        (Attach("a", 256, RECEIVER, source=Source("/queue/q")), "amqp:connection:framing-error",
         "link handle value (256) exceeds maximum link handle value (255)"),
        (Attach("a", 2**32 - 1, SENDER, target=Target("/queue/q")),
         "amqp:connection:framing-error",
         "link handle value (4294967295) exceeds maximum link handle value (255)"),
        (Attach("a", 0, SENDER, target=Target(dynamic=True)),
         "amqp:not-implemented", "Dynamic targets not supported"),
        (Transfer(7, 0, b"t", 0),
         "amqp:session:unattached-handle", "Unknown link handle: 7"),
        (Flow(None, 10, 0, 10, 7), "amqp:session:unattached-handle", "Unattached link handle: 7"),
        (Attach("a", 0, SENDER, 9, target=Target("/queue/q")),
         "amqp:invalid-field", "snd-settle-mode is 9"),
        (Flow(5, 10, 0, 10), "amqp:session:window-violation",
         "next-incoming-id from FLOW (5) leads next-outgoing-id (4294967292)"),
    ],
)  # fmt: skip
async def test_errors_of_a_session(node, request_, condition, description):
    client = await node.client()
    [end] = await client.answers(request_)
    assert isinstance(end, End)
    assert end.error[:2] == (condition, description)


async def test_a_session_has_256_links(node):
    client = await queue_with(node)
    for handle in range(256):
        (attach, *_) = await client.publisher("/queues/q", handle)
        assert (attach.handle, attach.target) == (handle, Target("/queues/q"))
    (end,) = await client.publisher("/queues/q", 256)
    assert end.error.condition == "amqp:connection:framing-error"


async def test_errors_of_links_end_only_the_link_since_4_3():
    async with Amqp10Node(compat="4.x") as node:
        client = await queue_with(node)
        attach, detach = await client.answers(Attach("a", 0, RECEIVER, source=Source("/queues/no")))
        assert (attach.source, attach.target) == (None, None)
        assert (detach.handle, detach.closed) == (0, True)
        assert detach.error[:2] == ("amqp:not-found", "no queue 'no' in vhost '/'")
        await client.publisher(None, 1)
        assert outcomes(await client.publish("m", 9)) == [(0, None, Accepted())]


async def test_a_client_that_takes_all_gets_all(node):
    client = await queue_with(node, "a", "b")
    await client.consumer("/queues/q", credit=2**32 - 1)
    assert bodies(await client.received()) == ["a", "b"]
    client.credit(0, 2**32 - 1, delivery_count=0)
    await client.frames()
    assert client.connection.incoming.sessions[0].outgoing[0].link_credit == 2**32 - 3


async def test_credit_of_before_the_last_deliveries_gives_nothing(node):
    client = await queue_with(node, "a", "b", "c")
    await client.consumer("/queues/q", credit=2)
    await client.received()
    client.credit(0, 1, delivery_count=0)
    assert bodies(await client.received()) == []


async def test_names_that_are_no_unicode_are_told_as_unicode(node):
    client = await node.client()
    [end] = await client.answers(Attach("a", 0, SENDER, target=Target("/queues/%ff")))
    assert end.error.description == "no queue '\N{REPLACEMENT CHARACTER}' in vhost '/'"


async def test_an_exchange_that_goes_detaches_its_publishers(node):
    client = await queue_with(node)
    vhost = node.broker.services.vhosts["/"]
    await client.publisher("/exchanges/amq.direct/k", 1)
    vhost.exchanges.pop("amq.direct")
    vhost_answers = await client.publish("m", 1)
    assert outcomes(vhost_answers) == [(0, None, Released())]
    (detach,) = [one for one in vhost_answers if isinstance(one, Detach)]
    assert detach.error[:2] == ("amqp:not-found", "no exchange 'amq.direct' in vhost '/'")


async def test_a_client_may_not_publish_for_somebody_else(node):
    client = await queue_with(node)
    [end] = await client.publish("m", 9, properties={"user-id": Value("binary", b"other")})
    assert end.error.condition == "amqp:unauthorized-access"


async def test_an_annotation_without_x_ends_the_session(node):
    client = await queue_with(node)
    [end] = await client.publish(
        "m", 9, message_annotations=[(Value("symbol", "own"), text("value"))]
    )
    assert "'own'" in end.error.description


async def test_the_anonymous_terminus(node):
    client = await queue_with(node)
    await client.publisher(None)
    assert outcomes(await client.publish("m", properties={"to": text("/queues/q")})) == [
        (0, None, Accepted())
    ]
    for to, condition, text_of_error in (
        (None, "amqp:precondition-failed", "anonymous terminus requires 'to' address to be set"),
        ("/queue/q", "amqp:precondition-failed", "bad 'to' address string: /queue/q"),
        ("/exchanges/no/k", "amqp:not-found", "no exchange 'no' in vhost '/'"),
    ):
        properties = {} if to is None else {"to": text(to)}
        [(_, _, outcome)] = outcomes(await client.publish("m", properties=properties))
        assert outcome.error[:2] == (condition, text_of_error)
    [detach] = await client.publish("m", settled=True)
    assert (detach.handle, detach.error.condition) == (0, "amqp:precondition-failed")


async def test_sections_come_back_as_they_were_sent(node):
    client = await queue_with(node)
    sections = {
        "header": {"durable": Value("boolean", True), "priority": Value("ubyte", 7)},
        "message_annotations": [(Value("symbol", "x-opt-own"), Value("ulong", 5))],
        "properties": {"message-id": Value("uuid", bytes(16)), "subject": text("s")},
        "application_properties": [(text("float"), Value("float", 1.5))],
    }
    await client.publish("m", 9, **sections)
    await client.consumer("/queues/q")
    [(_, message)] = await client.received()
    assert message.properties == sections["properties"]
    assert message.application_properties == sections["application_properties"]
    assert message.message_annotations == [
        (Value("symbol", "x-exchange"), text("")),
        (Value("symbol", "x-routing-key"), text("q")),
        *sections["message_annotations"],
    ]
    assert message.header["priority"] == Value("ubyte", 7)


@pytest.mark.parametrize("compat", ["4.0", "4.x"])
async def test_a_full_queue_says_since_4_3_why_it_rejects(compat):
    async with Amqp10Node(compat=compat) as node:
        await node.declare("full", overflow="reject-publish", max_length=0)
        client = await node.client()
        await client.publisher("/queues/full")
        error = Error(
            "amqp:resource-limit-exceeded", "queue 'full' exceeded maximum length",
            Value("map", [
                (Value("symbol", "queue"), text("full")),
                (Value("symbol", "reason"), Value("symbol", "maxlen")),
            ]),
        )  # fmt: skip
        expected = Rejected(error) if compat == "4.x" else Rejected()
        assert outcomes(await client.publish("m")) == [(0, None, expected)]
        await client.publisher(None, 1)
        to = {"to": text("/queues/full")}
        assert outcomes(await client.publish("m", 1, properties=to)) == [(1, None, Rejected())]


async def test_a_message_in_many_transfers_takes_the_memory_of_its_bytes(node):
    client = await queue_with(node)
    client.send(Transfer(9, 0, b"t", 0, more=True), payload=b"\0\x53")
    piece = frame_with(Transfer(9, more=True), b"xy")
    tracemalloc.start()
    for _ in range(50):
        client.send_bytes(piece * 100)
        await client.frames()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 150_000


def active(frames):
    """What flows say about each link: whether it is active."""
    return [
        (one.performative.handle, one.performative.properties.value[0][1].value)
        for one in frames
        if isinstance(one.performative, Flow) and one.performative.properties
    ]


async def told(client):
    """What a client is told next."""
    while not (found := active(await client.frames())):
        pass
    return found[-1]


async def test_links_from_quorum_queues_are_told_whether_they_are_active():
    async with Amqp10Node(compat="4.x", is_lone=True) as node:
        await node.declare("q", queue_type="quorum")
        await node.declare("single", queue_type="quorum", single_active_consumer=True)
        client = await node.client()
        await client.consumer("/queues/q", 0)
        assert await told(client) == (0, True)
        first = await node.client()
        await first.consumer("/queues/single", 1)
        while await told(first) != (1, True):
            pass
        second = await node.client()
        await second.consumer("/queues/single", 2)
        assert await told(second) == (2, False)
        await first.answers(Detach(1, True))
        assert await told(second) == (2, True)
