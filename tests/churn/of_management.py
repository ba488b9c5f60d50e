"""Cycles of what operators declare over HTTP: vhosts, users, policies, shovels, traces and so on.

Each is a coroutine function of the node, the number of the first cycle, and how many to do.
"""

from pamqp import commands

from tests.churn.far_ends import (
    closing_server,
    its_other_vhost,
    nobody,
    silent_server,
    this_node,
)
from tests.churn.of_queues import method
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import Client

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
AT_ONCE = 10
"""Links that run at the same time."""
HERE = "amqp://"


def of_requests(cycle):
    """A kind of object, of the requests of one cycle by its number."""

    async def run(node, first, count):
        async with await node.requests() as requests:
            for n in range(first, first + count):
                await cycle(requests, n)

    return run


async def vhost(requests, n):
    await requests.put(f"vhosts/v{n}", description="for a while")
    await requests.put(f"queues/v{n}/q", durable=True)
    await requests.put(f"exchanges/v{n}/x", type="topic", durable=False)
    await requests.send("POST", f"bindings/v{n}/e/x/q/q", {"routing_key": "#"})
    await requests.put(f"permissions/v{n}/guest", **EVERYTHING)
    await requests.delete(f"vhosts/v{n}")


async def user(requests, n):
    await requests.put(f"users/u{n}", password="secret", tags="monitoring")
    await requests.put(f"permissions/%2F/u{n}", **EVERYTHING)
    await requests.put(f"topic-permissions/%2F/u{n}", exchange="amq.topic", write="^a", read=".*")
    await requests.put(f"user-limits/u{n}/max-connections", value=10)
    await requests.delete(f"users/u{n}")


async def permission(requests, n):
    await requests.put("permissions/%2F/guest", **{**EVERYTHING, "read": f"^q{n}|.*"})
    await requests.put("topic-permissions/%2F/guest", exchange=f"x{n}", write="^a", read=".*")
    await requests.delete("topic-permissions/%2F/guest")


async def policy(requests, n):
    """One that matches, and an operator's."""
    definition = {"max-length": 1000 + n}
    await requests.put("queues/%2F/policed", durable=True)
    await requests.put(f"policies/%2F/p{n}", pattern=f"^policed|{n}", definition=definition)
    await requests.put(f"operator-policies/%2F/o{n}", pattern="^policed", definition=definition)
    await requests.delete(f"policies/%2F/p{n}")
    await requests.delete(f"operator-policies/%2F/o{n}")


async def parameter(requests, n):
    await requests.put(f"global-parameters/g{n}", value={"number": n})
    await requests.put("vhost-limits/%2F/max-queues", value=100_000 + n)
    await requests.delete("vhost-limits/%2F/max-queues")
    await requests.delete(f"global-parameters/g{n}")


async def request(requests, n):
    for path in ("overview", "nodes", "connections", "channels", "consumers"):
        await requests.get(path)
    for path in ("queues/%2F", "exchanges", "bindings", "vhosts", "users", "policies"):
        await requests.get(path)


async def message(requests, n):
    """Published and got over HTTP."""
    payload = {"payload": f"message {n}", "payload_encoding": "string"}
    published = {"properties": {}, "routing_key": f"q{n}", **payload}
    got = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    await requests.put(f"queues/%2F/q{n}", durable=False)
    await requests.send("POST", "exchanges/%2F/amq.default/publish", published)
    await requests.send("POST", f"queues/%2F/q{n}/get", got)
    await requests.delete(f"queues/%2F/q{n}/contents")
    await requests.delete(f"queues/%2F/q{n}")


async def http_connections(node, first, count):
    """A request on each."""
    for _ in range(count):
        async with await node.requests() as requests:
            await requests.get("whoami")


def traces(format_name):
    """Traces to files, each with a publish and a delivery."""

    async def run(node, first, count):
        client = Client(node.broker)
        client.send(method(commands.Queue.Declare, queue="traced"))
        async with await node.requests() as requests:
            for n in range(first, first + count):
                await requests.put(f"traces/%2F/t{n}", format=format_name, pattern="#")
                client.send(publish_bytes(1, "traced", b"message"))
                client.send(method(commands.Basic.Get, queue="traced", no_ack=True))
                await node.done(client)
                await requests.delete(f"traces/%2F/t{n}")
        client.disconnect()

    return run


async def firehose(node, first, count):
    """Switched on and off, with a queue that gets its copies."""
    client = Client(node.broker)
    for n in range(first, first + count):
        node.broker.tracing.set_firehose(node.vhost, True)
        client.send(method(commands.Queue.Declare, queue=f"f{n}"))
        bound = {"queue": f"f{n}", "exchange": "amq.rabbitmq.trace", "routing_key": "#"}
        client.send(method(commands.Queue.Bind, **bound))
        client.send(publish_bytes(1, "nowhere", b"message"))
        client.send(method(commands.Queue.Delete, queue=f"f{n}", if_unused=False, if_empty=False))
        await node.done(client)
        node.broker.tracing.set_firehose(node.vhost, False)
    client.disconnect()


def in_batches(far_end, batch):
    """A kind of what runs besides clients, `AT_ONCE` at a time. far_end: what is there as long as
    all of them. batch: does the cycles of these numbers.
    """

    async def run(node, first, count):
        async with await node.requests() as requests, far_end() as uri:
            for start in range(first, first + count, AT_ONCE):
                end = min(start + AT_ONCE, first + count)
                await batch(node, requests, uri, range(start, end))

    return run


def shovels(server, is_ready):
    """Shovels from a queue of a server. is_ready: whether one, by its status, may be deleted."""

    async def batch(node, requests, uri, numbers):
        for n in numbers:
            value = {
                "src-protocol": "amqp091", "src-uri": uri, "src-queue": f"from{n}",
                "dest-protocol": "amqp091", "dest-uri": HERE, "dest-queue": f"to{n}",
            }  # fmt: skip
            await requests.put(f"parameters/shovel/%2F/s{n}", value=value)
        await _all_are(node, node.broker.shovels, len(numbers), is_ready)
        for n in numbers:
            await requests.delete(f"parameters/shovel/%2F/s{n}")
        await node.until(lambda: not node.broker.shovels.statuses)
        for n in numbers:
            await _deleted(requests, node.vhost.queues, f"queues/%2F/from{n}", f"queues/%2F/to{n}")

    return in_batches(server, batch)


def links(kind, upstream, is_ready, **options):
    """Federated exchanges or queues, with an upstream and a policy each. options: as they are
    declared with.
    """

    async def batch(node, requests, uri, numbers):
        if "up" not in node.broker.services.vhosts:
            await requests.put("vhosts/up")
        for n in numbers:
            value = {"uri": uri, "reconnect-delay": 60}
            await requests.put(f"parameters/federation-upstream/%2F/l{n}", value=value)
            definition = {"federation-upstream": f"l{n}"}
            await requests.put(f"policies/%2F/l{n}", pattern=f"^l{n}$", definition=definition)
            await requests.put(f"{kind}/%2F/l{n}", durable=True, **options)
        await _all_are(node, node.broker.federation, len(numbers), is_ready)
        for n in numbers:
            await requests.delete(f"{kind}/%2F/l{n}")
            await requests.delete(f"policies/%2F/l{n}")
            await requests.delete(f"parameters/federation-upstream/%2F/l{n}")
        await node.until(lambda: not node.broker.federation.statuses)
        there = node.broker.services.vhosts["up"]
        await _deleted(requests, there.queues, *[f"queues/up/l{n}" for n in numbers])
        await _deleted(requests, there.exchanges, *[f"exchanges/up/l{n}" for n in numbers])

    return in_batches(upstream, batch)


async def _all_are(node, running, count, is_ready):
    """Wait until `count` are running, each of which may be deleted."""
    await node.until(lambda: len(running.statuses) == count)
    await node.until(lambda: all(map(is_ready, running.statuses)))


async def _deleted(requests, existing, *paths):
    """Delete what a shovel or a link has declared, if there is any."""
    for path in paths:
        if path.rpartition("/")[2] in existing:
            await requests.delete(path)


def _runs(status):
    return status.state == "running"


def _has_failed(status):
    return status.state in ("terminated", "error")


def _has_begun(_status):
    return True


KINDS = {
    "vhosts": of_requests(vhost),
    "users": of_requests(user),
    "permissions": of_requests(permission),
    "policies": of_requests(policy),
    "parameters and limits": of_requests(parameter),
    "requests": of_requests(request),
    "messages over HTTP": of_requests(message),
    "connections over HTTP": http_connections,
}
TRACE_KINDS = {
    **{f"traces: {name}": traces(name) for name in ("text", "json", "log")},
    "traces: firehose": firehose,
}
LINK_KINDS = {
    "shovels": shovels(this_node, _runs),
    "shovels to nobody": shovels(nobody, _has_failed),
    "shovels to a server that closes": shovels(closing_server, _has_failed),
    "shovels to a silent server": shovels(silent_server, _has_begun),
    "federated exchanges": links("exchanges", its_other_vhost, _runs, type="topic"),
    "federated queues": links("queues", its_other_vhost, _runs),
    "federated exchanges of nobody": links("exchanges", nobody, _has_failed, type="topic"),
    "federated queues of a silent server": links("queues", silent_server, _has_begun),
}
