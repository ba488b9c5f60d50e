"""Where quorum queues are led, on three real nodes: what shows it, and what moves leaders."""

import json
import signal

import pytest

from tests.cluster.managed_nodes import form_managed
from tests.cluster.publisher import ConfirmedPublisher

QUORUM = {"durable": True, "arguments": {"x-queue-type": "quorum"}}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("leaders"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def queues(nodes, request):
    """Six queues that the first node was asked to declare."""
    names = [f"{request.node.name}.{number}" for number in range(6)]
    for name in names:
        nodes[0].put(f"queues/%2F/{name}", QUORUM)
    yield names
    for name in names:
        nodes[0].delete(f"queues/%2F/{name}")


def shown(node, queue):
    return node.get(f"queues/%2F/{queue}")


def leaders(node, queues):
    """The nodes that lead: those of the placements, if the groups agree."""
    found = [shown(node, name) for name in queues]
    return [one["node"] if one["raft"]["leader"] == one["node"] else None for one in found]


def led_by(node, queues, *wanted):
    """Wait until some of these nodes lead all queues, and no other one does."""
    names = {one.name for one in wanted}
    node.wait_until(
        lambda: set(leaders(node, queues)) <= names, f"{len(queues)} queues are led by {names}"
    )


def test_a_new_queue_is_led_where_it_was_declared(nodes, queues):
    declaring = nodes[0].name
    for queue in [shown(node, name) for node in nodes for name in queues]:
        # A node that gets no processor for seconds loses its leaders, to one of a later term.
        raft = queue["raft"]
        assert (queue["node"], raft["leader"]) == (declaring, declaring) or raft["term"] > 1


def test_placements_follow_the_leaders_of_a_node_that_dies(nodes, queues):
    a, b, c = nodes
    a.connect().channel().basic_consume(queues[1], print)
    other = b.connect().channel()

    def consumers():
        return other.queue_declare(queues[1], passive=True).method.consumer_count

    b.wait_until(lambda: consumers() == 1, "the leader counts the consumer")
    with ConfirmedPublisher(b, queues[0]) as publisher:
        b.wait_until(lambda: publisher.confirmed, "messages are confirmed")
        a.stop(signal.SIGKILL)
        before = len(publisher.confirmed)
        b.wait_until(lambda: len(publisher.confirmed) > before + 20, "another node leads")
    led_by(b, queues, b, c)
    b.wait_until(lambda: consumers() == 0, "consumers of the dead node are not counted")
    other.connection.close()
    a.start()
    led_by(a, queues, b, c)


def test_leaders_are_spread_and_transferred(nodes, queues):
    a, b, c = nodes

    def are_spread():
        led = b.ctl_json("rebalance", "quorum", "--queue-pattern", "test_leaders_are")
        return [one["Number of quorum queues"] for one in led] == [2, 2, 2]

    # A leader that is not handed over within seconds stays.
    b.wait_until(are_spread, "each node leads two")
    spread = sorted(2 * [one.name for one in nodes])
    a.wait_until(lambda: sorted(map(str, leaders(a, queues))) == spread, "each node leads two")
    for name in queues:
        c.ctl_until_done("transfer_leader", name, b.name)
    led_by(a, queues, b)
    said = a.ctl("transfer_leader", queues[0], "nobody@host", succeeds=False)
    assert "has no member on node 'nobody@host'" in said
    assert "does not exist" in a.ctl("transfer_leader", "none", b.name, succeeds=False)


def test_a_node_under_maintenance_leads_nothing(nodes, queues):
    a, b, c = nodes
    with ConfirmedPublisher(b, queues[0]) as publisher:
        b.wait_until(lambda: publisher.confirmed, "messages are confirmed")
        a.ctl("drain")
        before = len(publisher.confirmed)
        b.wait_until(lambda: len(publisher.confirmed) > before + 20, "publishing goes on")
    led_by(b, queues, b, c)
    said = b.ctl("transfer_leader", queues[0], a.name, succeeds=False)
    assert f"node {a.name} is under maintenance" in said
    a.ctl("revive")
    a.ctl_until_done("transfer_leader", queues[0], a.name)


def test_a_node_that_stops_hands_over_its_leaders(nodes, queues):
    a, b, c = nodes
    a.stop()
    led_by(b, queues, b, c)
    assert "before the leaders" not in a.log
    a.start()


def test_the_status_of_members(nodes, queues):
    a, b, c = nodes
    status = json.loads(b.ctl("quorum_status", queues[0], "--formatter", "json"))
    assert [(one["Node Name"], one["Raft State"]) for one in status] == [
        (a.name, "leader"), (b.name, "follower"), (c.name, "follower"),
    ]  # fmt: skip
    c.stop(signal.SIGKILL)
    a.wait_until(
        lambda: f"{c.name} │ nodedown" in a.ctl("quorum_status", queues[0]), "the node is down"
    )
    b.stop(signal.SIGKILL)
    queue = a.wait_to_see(f"queues/%2F/{queues[0]}", lambda one: one["raft"]["leader"] is None)
    assert (queue["state"], queue["leader"]) == ("down", "")
    assert queue["raft"]["reason"].startswith("a majority of the voters is needed")
    assert f"{b.name}, {c.name}" in queue["raft"]["reason"]
    for node in (b, c):
        node.start(waits=False)
    for node in (b, c):
        node.wait_for_log(" ready in")


def test_a_message_is_peeked_at_and_space_is_reclaimed(nodes, queues):
    a, b, _ = nodes
    queue = queues[0]
    for body in ("first", "second"):
        a.publish("/", queue, body, {"message_id": "m", "headers": {"h": 1}})
    (found,) = json.loads(b.ctl("peek", queue, "2", "--formatter", "json"))
    assert found == {
        "message_id": "m", "routing_keys": [queue], "exchange": "",
        "payload (max 64 bytes)": "second", "header.h": 1, "header.x-delivery-count": 0,
    }  # fmt: skip
    assert "does not have a message at that position" in b.ctl("peek", queue, "3", succeeds=False)
    assert shown(a, queue)["messages"] == 2
    b.ctl("reclaim_quorum_memory", queue)
    indexes = {one["snapshot_index"] for one in shown(a, queue)["raft"]["members"]}
    assert min(indexes) > 0
    b.ctl("check_if_new_quorum_queue_replicas_have_finished_initial_sync")


@pytest.mark.parametrize(
    ("number", "page", "prefix"),
    [
        (0, "metrics/per-object", "rabbitmq_raft"),
        (1, "metrics/detailed?family=ra_metrics", "rabbitmq_detailed_raft"),
    ],
    ids=["per-object", "detailed"],
)
def test_metrics_show_each_member_of_a_node(nodes, queues, number, page, prefix):
    nodes[0].publish("/", queues[0], "body", {})
    names = ("term_total", "log_commit_index", "log_last_written_index")
    member = f'{{vhost="/",queue="{queues[0]}"}}'

    def are_shown():
        """A queue is declared when two of its members are there: the third one comes later."""
        values = dict(line.rsplit(" ", 1) for line in nodes[number].metrics(page))
        members = [one for one in values if one.startswith(f"{prefix}_log_snapshot_index{{")]
        own = [float(values.get(f"{prefix}_{name}{member}", 0)) for name in names]
        return len(members) >= len(queues) and min(own) > 0

    nodes[number].wait_until(are_shown, "each member has its metrics")


def test_metrics_have_the_sums_of_all_members_of_a_node(nodes, queues):
    def are_summed():
        lines = [line for line in nodes[0].metrics() if line.startswith("rabbitmq_")]
        sums = {name: float(value) for name, value in map(str.split, lines)}
        bad = [sums[f"rabbitmq_quorum_queues_{name}"] for name in ("without_leader", "critical")]
        return sums["rabbitmq_raft_term_total"] >= len(queues) and bad == [0, 0]

    nodes[0].wait_until(are_summed, "all members have a leader and a term")
