"""A standby and its upstream: two nodes that are in no cluster with each other, for tests."""

from urllib.parse import quote

import pika

from tests.mgmt.served_node import ServedNode

ROUTE = "schema-replication"
INTERVAL_S = 0.2


def follow(standby, upstream, **setting):
    """Have a node follow another one; any HttpApi may be the upstream."""
    given = {
        "endpoints": [f"http://127.0.0.1:{upstream.http_port}"], "username": "guest",
        "password": "guest", "interval": INTERVAL_S, **setting,
    }  # fmt: skip
    answer = standby.put(ROUTE, given)
    assert answer.status == 204, answer


def status(standby):
    return standby.get(ROUTE)


def wait_for_state(standby, state):
    standby.wait_until(lambda: status(standby)["state"] == state, f"it is {state}")
    return status(standby)


def has(node, kind, name, vhost="/"):
    """Whether a node has an object in a vhost."""
    return node.request("GET", f"{kind}/{in_path(vhost)}/{in_path(name)}").status == 200


def in_path(name):
    return quote(name, safe="")


def wait_until_followed(standby, *, after=None):
    """Wait for a whole sync that begins from now on."""
    before = status(standby)["syncs"] if after is None else after

    def has_followed():
        now = status(standby)["syncs"]
        done = now["complete"] + now["unchanged"]
        return done >= before["complete"] + before["unchanged"] + 2

    standby.wait_until(has_followed, "it has synced twice")


def declare(node, *queues, vhost="/", **options):
    """Declare durable queues as a client does."""
    address = pika.ConnectionParameters("127.0.0.1", node.port, vhost)
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_declare(queue, **{"durable": True, **options})


def two_nodes(make_directory):
    """An upstream and a node that may follow it."""
    return tuple(ServedNode(make_directory(name), name=f"{name}@localhost") for name in NAMES)


NAMES = ("upstream", "standby")
