"""Management over AMQP 1.0: queues, exchanges and bindings by requests on a pair of links."""

from dataclasses import replace

import pytest

from leveret.broker.amqp10.sections import Amqp10Message, encode_message, read_message
from leveret.broker.amqp10.values import Value, decode, encode, encode_described
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    SETTLED,
    Attach,
    End,
    Source,
    Target,
    Transfer,
)
from leveret.broker.protocols.ending import CLOSING
from leveret.broker.runtime.pending import given
from tests.protocol.amqp10_peer import Amqp10Node, text

PAIRED = Value("map", [(Value("symbol", "paired"), Value("boolean", True))])


class Management:
    """A pair of links to management. Bodies of answers are plain values, and arrays are tuples."""

    def __init__(self, client):
        self.client = client
        self.count = 0
        self.body_of_next = None

    async def attach(self):
        for role, handle in ((SENDER, 0), (RECEIVER, 1)):
            self.client.send(
                Attach(
                    "pair", handle, role, SETTLED, properties=PAIRED,
                    source=Source("/management"), target=Target("/management"),
                )
            )  # fmt: skip
        self.client.credit(1, 100)
        return [one.performative for one in await self.client.frames()]

    async def request(self, method, path, **body):
        """The status and the body of the answer."""
        self.count += 1
        message = Amqp10Message()
        message.properties = {
            "message-id": Value("ulong", self.count), "to": text(path), "subject": text(method),
            "reply-to": text("$me"),
        }  # fmt: skip
        content = encode(valued(body)) if body else b"\x40"
        if self.body_of_next is not None:
            content, self.body_of_next = encode(self.body_of_next), None
        message.body = encode_described(0x77, content)
        transfer = Transfer(0, self.count, b"t", 0, True)
        self.client.send(transfer, payload=encode_message(message))
        frames = [one for one in await self.client.frames() if one.payload]
        if not frames:
            return None
        answer = read_message(frames[0].payload)
        assert answer.properties["correlation-id"] == Value("ulong", self.count)
        return answer.properties["subject"].value, plain(decode(answer.body)[0].value[1])


def valued(content):
    match content:
        case bool():
            return Value("boolean", content)
        case int():
            return Value("uint", content)
        case dict():
            return Value("map", [(text(key), valued(item)) for key, item in content.items()])
    return text(content)


def plain(value):
    if value.kind == "map":
        return {key.value: plain(item) for key, item in value.value}
    if value.kind == "array":
        return tuple(plain(item) for item in value.value)
    return [plain(item) for item in value.value] if value.kind == "list" else value.value


@pytest.fixture
async def management():
    async with Amqp10Node() as node:
        management = Management(await node.client())
        await management.attach()
        yield management


async def test_both_links_are_attached():
    async with Amqp10Node() as node:
        incoming, flow, outgoing = await Management(await node.client()).attach()
    assert (incoming.properties, outgoing.properties) == (PAIRED, PAIRED)
    assert (incoming.role, outgoing.role, flow.link_credit) == (RECEIVER, SENDER, 8)


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/queues/q", {"durable": "yes"},
         'bad queue property {{utf8,<<"durable">>},{utf8,<<"yes">>}}'),
        ("/queues/q", {"size": True}, 'bad queue property {{utf8,<<"size">>},true}'),
        ("/queues/q", {"arguments": "x"},
         'bad queue property {{utf8,<<"arguments">>},{utf8,<<"x">>}}'),
        ("/exchanges/e", {"type": 7}, 'bad exchange property {{utf8,<<"type">>},{uint,7}}'),
    ],
)  # fmt: skip
async def test_a_field_that_there_is_not_is_refused(management, path, body, reason):
    assert await management.request("PUT", path, **body) == ("400", reason)


async def test_a_body_that_is_no_map_is_refused(management):
    management.body_of_next = text("x")
    answer = await management.request("PUT", "/queues/q")
    assert answer == ("400", "the body of a request is a map, not a string")


async def test_a_queue(management):
    declared = {"durable": True, "arguments": {"x-queue-type": "classic"}}
    status, queue = await management.request("PUT", "/queues/a%2Fb", **declared)
    assert status == "201"
    assert queue["name"] == "a/b"
    assert queue["replicas"] == (queue["leader"],)
    assert queue["arguments"] == {"x-queue-type": "classic"}
    assert (await management.request("PUT", "/queues/a%2Fb", **declared)) == ("200", queue)
    assert (await management.request("GET", "/queues/a%2Fb")) == ("200", queue)
    other = await management.request("PUT", "/queues/a%2Fb", auto_delete=True)
    assert other[0] == "409"
    assert other[1].startswith("inequivalent arg 'auto_delete' for queue 'a/b' in vhost '/'")
    purged = await management.request("DELETE", "/queues/a%2Fb/messages")
    assert purged == ("200", {"message_count": 0})
    deleted = await management.request("DELETE", "/queues/a%2Fb")
    assert deleted == ("200", {"message_count": 0})
    missing = await management.request("GET", "/queues/a%2Fb")
    assert missing == ("404", "queue 'a/b' in vhost '/' not found")


async def test_a_queue_of_a_kind_with_arguments(management):
    arguments = {
        "x-queue-type": "classic", "x-max-length": 5, "x-single-active-consumer": True,
        "x-overflow": "reject-publish", "x-dead-letter-exchange": "amq.fanout",
    }  # fmt: skip
    status, queue = await management.request("PUT", "/queues/q", arguments=arguments)
    assert (status, queue["arguments"], queue["type"]) == ("201", arguments, "classic")
    wrong = {"x-queue-type": "classic", "x-max-length": "many"}
    status, reason = await management.request("PUT", "/queues/w", arguments=wrong)
    assert status in ("400", "409")
    assert "x-max-length" in reason


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_a_new_token(management, monkeypatch, is_accepted):
    connection = management.client.connection
    before = connection.user
    renewed = replace(before, tags=("policymaker",))
    access = connection.services.access
    answers = {"token": given(renewed if is_accepted else None)}
    monkeypatch.setattr(access, "begin_renew", lambda _user, token: answers[token])
    management.body_of_next = Value("binary", b"token")
    answered = await management.request("PUT", "/auth/tokens")
    if is_accepted:
        assert answered == ("204", None)
        assert connection.user is renewed
    else:
        assert connection.user is before
        assert connection.ending.state is CLOSING


async def test_a_token_is_binary(management):
    status, reason = await management.request("PUT", "/auth/tokens", token="t")
    assert (status, reason) == ("400", "a token is binary, and not a map")


async def test_the_queue_of_direct_replies():
    async with Amqp10Node(compat="4.x") as node:
        management = Management(await node.client())
        await management.attach()
        source = Source(
            expiry_policy="link-detach", dynamic=True, capabilities=["rabbitmq:volatile-queue"]
        )
        [answer] = await management.client.answers(
            Attach("replies", 2, RECEIVER, SETTLED, source=source)
        )
        status, queue = await management.request("GET", answer.source.address)
        assert (status, queue["consumer_count"], queue["durable"]) == ("200", 1, False)
        status, _ = await management.request("GET", f"{answer.source.address}-other")
        assert status == "404"


async def test_an_exchange_and_its_bindings(management):
    put = await management.request("PUT", "/exchanges/e", type="topic", durable=True)
    assert put == ("204", None)
    await management.request("PUT", "/queues/q", durable=True)
    arguments = {"x-match": "all"}
    for some in ({}, arguments):
        bound = await management.request(
            "POST", "/bindings", source="e", destination_queue="q", binding_key="a/b",
            arguments=some,
        )  # fmt: skip
        assert bound == ("204", None)
    status, bindings = await management.request("GET", "/bindings?src=e&dstq=q&key=a%2Fb")
    assert status == "200"
    assert [one["arguments"] for one in bindings] == [{}, arguments]
    assert bindings[0]["location"] == "/bindings/src=e;dstq=q;key=a%2Fb;args="
    assert await management.request("DELETE", bindings[1]["location"]) == ("204", None)
    _, left = await management.request("GET", "/bindings?src=e&dstq=q&key=a%2Fb")
    assert left == bindings[:1]
    assert await management.request("DELETE", "/exchanges/e") == ("204", None)


@pytest.mark.parametrize(
    ("method", "path", "status", "text_"),
    [
        ("DELETE", "/exchanges/amq.direct", "403",
         "exchange 'amq.direct' in vhost '/' starts with reserved prefix 'amq.'"),
        ("PUT", "/queues/amq.q", "403",
         "queue 'amq.q' in vhost '/' starts with reserved prefix 'amq.'"),
        ("PUT", "/queues/", "400", "declare queue with empty name not allowed"),
        ("GET", "/bindings?src=e&key=k", "400",
         "missing 'dste' or 'dstq' in query: {'src': 'e', 'key': 'k'}"),
        ("GET", "/queues/100%", "400", "'100%' is not percent-encoded"),
        ("PUT", "/exchanges/e", "400", "unknown exchange type 'unknown'"),
    ],
)  # fmt: skip
async def test_requests_that_are_refused(management, method, path, status, text_):
    body = {"type": "unknown"} if path == "/exchanges/e" else {}
    assert await management.request(method, path, **body) == (status, text_)


async def test_the_body_may_come_before_the_properties(management):
    await management.request("PUT", "/queues/q", durable=True)
    message = Amqp10Message()
    message.properties = {"subject": text("GET"), "to": text("/queues/q")}
    management.client.send(
        Transfer(0, 5, b"t", 0, True), payload=b"\0\x53\x77\x40" + encode_message(message)
    )
    [answer] = [one.payload for one in await management.client.frames() if one.payload]
    assert read_message(answer).properties["subject"].value == "200"


async def test_a_request_has_a_limited_size(management):
    transfer = Transfer(0, 0, b"t", 0, True, more=True)
    management.client.send(transfer, payload=b"x" * 70_000)
    management.client.send(transfer._replace(more=False), payload=b"x" * 70_000)
    [end] = [one.performative for one in await management.client.frames()]
    assert end.error[:2] == (
        "amqp:link:message-size-exceeded",
        "message size (140000 bytes) > maximum message size (131072 bytes)",
    )


async def test_an_unknown_request_ends_the_session(management):
    management.client.send(Transfer(0, 0, b"t", 0, True), payload=b"\0\x53\x77\x40")
    [end] = [one.performative for one in await management.client.frames()]
    assert isinstance(end, End)
    assert end.error.condition == "amqp:internal-error"
