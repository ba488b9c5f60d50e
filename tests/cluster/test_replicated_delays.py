"""A delayed message exchange whose messages wait on three real nodes, which are killed and stopped.

The nodes are started once. Each test leaves all of them running.
"""

import signal
from contextlib import ExitStack

import pika
import pytest

from tests.cluster.delayed_publisher import DelayedPublisher, taken_until
from tests.cluster.managed_nodes import form_managed
from tests.patience import PATIENCE_SECONDS

HOUR_MS = 3_600_000
WHERE = "exchanges/%2F/later"
ARGUMENTS = {"x-delayed-type": "fanout", "x-delayed-queue-type": "quorum"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("delays"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def declared(node):
    """A channel with confirms of an exchange `later` and a queue `q` that is bound to it."""
    channel = node.connect().channel()
    channel.confirm_delivery()
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=ARGUMENTS)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind("q", "later")
    return channel


def publish(channel, message_id, delay_ms):
    properties = pika.BasicProperties(
        message_id=message_id, headers={"x-delay": delay_ms}, delivery_mode=2
    )
    channel.basic_publish("later", "", message_id.encode(), properties)


def waiting(node):
    """The ids of the messages that wait, as a node lists them, and the node that leads."""
    items = node.get(f"{WHERE}/delayed")["items"]
    return [one["properties"]["message_id"] for one in items], {one["node"] for one in items}


def consumed(node, count):
    """The next messages, in their order."""
    taken = []
    with node.connect() as connection:
        channel = connection.channel()
        for method, properties, body in channel.consume("q", inactivity_timeout=PATIENCE_SECONDS):
            assert method is not None, f"no message after {taken}"
            assert properties.headers["x-delay"] < 0
            channel.basic_ack(method.delivery_tag)
            taken.append(body.decode())
            if len(taken) == count:
                break
    return taken


def test_messages_survive_the_node_that_leads_and_are_chosen_on_any_node(cluster):
    a, _, _ = cluster
    channel = declared(a)
    for message_id, delay_ms in (
        ("soon", 5000), ("now", HOUR_MS), ("never", HOUR_MS + 1), ("kept", HOUR_MS + 2),
    ):  # fmt: skip
        publish(channel, message_id, delay_ms)
    for node in cluster:
        node.wait_to_see(WHERE, lambda shown: shown["messages_delayed"] == 4)
        ids, leaders = waiting(node)
        assert ids == ["soon", "now", "never", "kept"]
        assert [one["name"] for one in node.get("queues")] == ["q"]
    (leader,) = [node for node in cluster if {node.name} == leaders]
    others = [node for node in cluster if node is not leader]
    one, other = others
    assert one.post(f"{WHERE}/delayed/cancel", {"message_ids": ["never"]}).body == {"cancelled": 1}
    assert one.post(f"{WHERE}/delayed/send", {"message_ids": ["now"]}).body == {"sent": 1}
    assert leader.name in other.ctl("quorum_status", "amq.delayed-later")
    assert other.get(WHERE)["raft"]["leader"] == leader.name
    leader.stop(signal.SIGKILL)
    assert consumed(other, 2) == ["now", "soon"]
    other.wait_to_see(f"{WHERE}/delayed", lambda shown: shown["messages"] == 1)

    for node in others:
        node.stop()
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_until(lambda node=node: node.is_ready, "it is ready")
    leader.wait_to_see(WHERE, lambda shown: shown["messages_delayed"] == 1)
    assert waiting(leader)[0] == ["kept"]
    assert leader.post(f"{WHERE}/delayed/send", {"all": True}).body == {"sent": 1}
    assert consumed(leader, 1) == ["kept"]

    queue = "amq.delayed-later"
    assert queue in leader.ctl("shrink", other.name)
    assert queue in leader.ctl("grow", other.name, "all", "--queue-pattern", "^amq")
    leader.delete(WHERE)
    assert queue not in leader.ctl("shrink", other.name)


def leader_of(nodes):
    """The node that leads the queue of the exchange, as one of these nodes shows it."""
    by_name = {node.name: node for node in nodes}
    shown = nodes[0].wait_to_see(WHERE, lambda one: one["raft"]["leader"] in by_name)
    return by_name[shown["raft"]["leader"]]


def wait_for_more(publisher, node):
    count = len(publisher.confirmed)
    node.wait_until(lambda: len(publisher.confirmed) > count + 5, "more is confirmed")


def come(nodes, publishers):
    """Take all messages that were confirmed: none comes early. Returns how often each came."""
    due = {body: at for one in publishers for body, at in one.confirmed.items()}
    taken = taken_until(nodes[0], "q", due)
    early = {body: at - due[body] for body, (at, *_) in taken.items() if at < due.get(body, 0)}
    assert early == {}
    return [len(times) for times in taken.values()]


def publishing(nodes, prefix):
    """A publisher of each node."""
    return [
        DelayedPublisher([node], f"{prefix}-{place}", (1, 50, 700, 1500))
        for place, node in enumerate(nodes)
    ]


def test_nothing_confirmed_is_lost_or_early_whichever_node_dies_or_stops(cluster):
    declared(cluster[0])
    leader = leader_of(cluster)
    one, other = [node for node in cluster if node is not leader]
    with ExitStack() as running:
        publishers = [running.enter_context(each) for each in publishing(cluster, "follower")]
        for each in publishers:
            wait_for_more(each, one)
        one.stop(signal.SIGKILL)
        wait_for_more(publishers[cluster.index(other)], other)
        one.start()
        wait_for_more(publishers[cluster.index(one)], one)
    assert set(come(cluster, publishers)) == {1}

    with ExitStack() as running:
        publishers = [running.enter_context(each) for each in publishing(cluster, "leader")]
        for end, go_on in (
            (lambda node: node.stop(signal.SIGKILL), lambda node: node.start()),
            (lambda node: node.process.send_signal(signal.SIGSTOP),
             lambda node: node.process.send_signal(signal.SIGCONT)),
        ):  # fmt: skip
            leader = leader_of(cluster)
            others = [node for node in cluster if node is not leader]
            end(leader)
            wait_for_more(publishers[cluster.index(others[0])], others[0])
            go_on(leader)
            wait_for_more(publishers[cluster.index(leader)], leader)
    assert set(come(cluster, publishers)) <= {1, 2}
