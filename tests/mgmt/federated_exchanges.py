"""Exchanges that tests federate: upstreams and policies, and what links declare at an upstream."""

from itertools import product

from tests.mgmt.test_shovels import channel_of, dashed, take_all, uri


def vhost_at(node, vhost):
    assert node.put(f"vhosts/{vhost}").status in (201, 204)


def federate(node, vhost, upstream, pattern="^x", definition=None, **options):
    value = {"uri": upstream, "reconnect-delay": 0.2, **dashed(options)}
    answer = node.put(f"parameters/federation-upstream/{vhost}/up", {"value": value})
    assert answer.status in (201, 204), answer
    definition = definition or {"federation-upstream-set": "all"}
    answer = node.put(f"policies/{vhost}/p", {"pattern": pattern, "definition": definition})
    assert answer.status in (201, 204), answer


def names_at(node, vhost, kind):
    return sorted(one["name"] for one in node.get(f"{kind}/{vhost}"))


def link_objects(node, vhost):
    """The names of the internal exchanges and queues of links."""
    return [
        name for kind in ("exchanges", "queues") for name in names_at(node, vhost, kind)
        if name.startswith("federation: ")
    ]  # fmt: skip


def keys_at(node, vhost, exchange="x"):
    """The routing keys for which links want the messages of an exchange."""
    path = f"exchanges/{vhost}/{exchange}/bindings/source"
    answer = node.request("GET", path)
    found = answer.body if answer.status == 200 else []
    return sorted(
        one["routing_key"] for one in found if one["destination"].startswith("federation: ")
    )


def at(node, vhost):
    return f"{uri(node)}/{vhost}"


def bound_queue(channel, *keys, exchange="x", exchange_type="topic"):
    channel.exchange_declare(exchange, exchange_type, durable=True)
    queue = channel.queue_declare("q", durable=True).method.queue
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return queue


def check_circle(brokers, vhost, max_hops, count):
    """Have the exchange of each broker get the messages of the one before, round in a circle, and
    publish `count` messages at each: each must come once into the queue of each broker.

    The vhost is made at the brokers behind the first, and deleted there when all is well.
    """
    for broker in brokers[1:]:
        vhost_at(broker, vhost)
    channels = [channel_of(broker, vhost) for broker in brokers]
    for channel in channels:
        bound_queue(channel, "k", exchange_type="direct")
    for here, upstream in zip(brokers, [brokers[-1], *brokers[:-1]], strict=True):
        federate(here, vhost, at(upstream, vhost), max_hops=max_hops)
    for broker in brokers:
        broker.wait_until(lambda one=broker: len(keys_at(one, vhost)) == 2, "bindings went round")
    for place, number in product(range(len(brokers)), range(count)):
        channels[place].basic_publish("x", "k", b"%d from %d" % (number, place))
    wanted = sorted(b"%d from %d" % one for one in product(range(count), range(len(brokers))))
    found = [[] for _ in brokers]

    def all_have_come():
        for bodies, channel in zip(found, channels, strict=True):
            bodies.extend(take_all(channel, "q"))
        return all(len(bodies) >= len(wanted) for bodies in found)

    brokers[0].wait_until(all_have_come, "each message is at each broker")
    assert [sorted(bodies) for bodies in found] == [wanted] * len(brokers)
    for broker in brokers[1:]:
        broker.delete(f"vhosts/{vhost}")
