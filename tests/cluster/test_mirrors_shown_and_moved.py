"""Mirrors as any node's API and leveretctl show them; synchronising, and where queues are led."""

import json

import pytest

from leveret.mgmt.api.description.document import document
from tests.cluster.clients import publish
from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import form_managed

MESSAGES = 300
SLOW = {"ha-mode": "all", "ha-sync-batch-size": 1}
MIRRORED = "queues/%2F/"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("cluster"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def set_policy(node, queue, **definition):
    node.ctl("set_policy", queue, f"^{queue}$", json.dumps(definition))


def names(*nodes):
    return sorted(node.name for node in nodes)


def is_synchronised(queue):
    return len(queue.get("synchronised_slave_nodes", ())) == 2


@pytest.fixture
def mirrored(nodes, request):
    """A queue on the first node that is mirrored by the others."""
    name = request.node.name
    set_policy(nodes[0], name, **{"ha-mode": "all"})
    declare(nodes[0], name)
    nodes[0].wait_to_see(MIRRORED + name, is_synchronised)
    yield name
    nodes[0].delete(MIRRORED + name)


@pytest.fixture
def lacking(nodes, request):
    """A queue with messages on the first node whose mirrors have none of them."""
    name = request.node.name
    declare(nodes[0], name)
    publish(nodes[0], name, *[b"%d" % number for number in range(MESSAGES)])
    set_policy(nodes[0], name, **SLOW)
    nodes[0].wait_to_see(MIRRORED + name, lambda queue: len(queue.get("slave_nodes", ())) == 2)
    yield name
    nodes[0].delete(MIRRORED + name)


def test_every_node_shows_the_mirrors_and_the_ring(nodes, mirrored):
    a, b, c = nodes
    for node in nodes:
        queue = node.get(MIRRORED + mirrored)
        assert queue["node"] == a.name
        assert sorted(queue["slave_nodes"]) == names(b, c)
        assert sorted(queue["synchronised_slave_nodes"]) == names(b, c)
        assert sorted(queue["recoverable_slaves"]) == names(b, c)
        ring = queue["mirroring"]
        assert (ring["leader"], ring["awaited"], ring["copies"]) == (a.name, None, [])
        members = ring["members"]
        assert [one["leads"] for one in members] == [True, False, False]
        in_order = [one["node"] for one in members]
        assert [one["right"] for one in members] == [*in_order[1:], in_order[0]]
        assert [one["left"] for one in members] == [in_order[-1], *in_order[:-1]]
        assert [one["pending"] for one in members] == [0, 0, 0]
        (listed,) = [one for one in node.get("queues") if one["name"] == mirrored]
        assert sorted(listed["slave_nodes"]) == names(b, c)


def test_a_queue_that_moves_is_never_shown_as_down(nodes, mirrored):
    states = set()
    for node in (*nodes[1:], nodes[0]):
        set_policy(nodes[0], mirrored, **{"ha-mode": "nodes", "ha-params": [node.name]})
        while (queue := nodes[2].get(MIRRORED + mirrored))["node"] != node.name:
            states.add(queue["state"])
        states.add(queue["state"])
    assert states == {"running"}


def test_the_answers_are_as_described(nodes, mirrored):
    schema = document("", with_control=False)["components"]["schemas"]["Mirroring"]
    shown = nodes[1].get(MIRRORED + mirrored)["mirroring"]
    assert set(shown) == set(schema["properties"])
    assert set(shown["members"][0]) == set(schema["properties"]["members"]["items"]["properties"])


def test_list_queues_shows_mirrors_by_the_names_of_rabbitmq(nodes, mirrored):
    a, b, c = nodes
    declare(a, "alone")
    columns = ("pid", "slave_pids", "synchronised_slave_pids", "mirror_pids")
    lines = b.ctl("list_queues", "--no-table-headers", "name", *columns).splitlines()
    rows = dict(line.split("\t", 1) for line in lines)
    (pids,) = set(rows[mirrored].split("\t")[1:])
    assert rows[mirrored].split("\t")[0] == f"<{a.name}.{mirrored}>"
    assert sorted(pids.strip("[]").split(", ")) == [f"<{node.name}.{mirrored}>" for node in (b, c)]
    assert rows["alone"] == f"<{a.name}.alone>\t\t\t"
    a.delete(f"{MIRRORED}alone")


def test_sync_queue_waits_until_the_mirrors_have_everything(nodes, lacking):
    a, b, c = nodes
    assert a.get(MIRRORED + lacking)["synchronised_slave_nodes"] == []
    assert b.ctl("sync_queue", lacking) == ""
    assert sorted(c.get(MIRRORED + lacking)["synchronised_slave_nodes"]) == names(b, c)
    assert b.ctl("cancel_sync_queue", lacking) == "not_syncing\n"


def test_the_progress_of_mirrors_is_shown(nodes, lacking):
    a, b, _ = nodes
    assert b.post(f"{MIRRORED}{lacking}/actions", {"action": "sync"}).status == 204
    queue = a.wait_to_see(
        MIRRORED + lacking, lambda queue: "sync_messages" in queue or is_synchronised(queue)
    )
    if not is_synchronised(queue):
        assert queue["state"] == "syncing"
        assert 0 <= queue["sync_messages"] <= MESSAGES
        for one in queue["mirroring"]["members"][1:]:
            assert one["sync"]["expected"] == MESSAGES
    a.wait_to_see(MIRRORED + lacking, is_synchronised)


def test_a_policy_has_mirrors_synchronised_by_itself(nodes, lacking):
    set_policy(nodes[2], lacking, **SLOW, **{"ha-sync-mode": "automatic"})
    nodes[1].wait_to_see(MIRRORED + lacking, is_synchronised)


def test_a_queue_that_cannot_be_synchronised_is_refused_with_the_reason(nodes):
    declare(nodes[0], "alone")
    said = nodes[1].ctl("sync_queue", "alone", succeeds=False)
    assert "queue 'alone' in vhost '/' is not mirrored" in said
    assert "does not exist" in nodes[1].ctl("cancel_sync_queue", "nothing", succeeds=False)
    assert nodes[1].post(f"{MIRRORED}alone/actions", {"action": "sync"}).status == 204
    nodes[0].delete(f"{MIRRORED}alone")


def test_a_node_is_critical_while_only_it_has_everything(nodes, lacking):
    a, b, _ = nodes
    check = "health/checks/node-is-mirror-sync-critical"
    answer = a.request("GET", check)
    assert (answer.status, answer.body["status"]) == (503, "failed")
    assert answer.body["queues"] == [
        {
            "name": lacking, "readable_name": f"queue '{lacking}' in vhost '/'",
            "type": "classic", "virtual_host": "/",
        }
    ]  # fmt: skip
    assert b.get(check) == {"status": "ok"}
    said = a.ctl("check_if_node_is_mirror_sync_critical", succeeds=False)
    assert f"queue '{lacking}' in vhost '/' would lose its only synchronised replica" in said
    a.ctl("sync_queue", lacking)
    assert a.get(check) == {"status": "ok"}
    a.ctl("check_if_node_is_mirror_sync_critical")
    a.ctl("await_online_synchronized_mirror")


def test_a_node_is_critical_while_it_has_the_only_member_of_a_quorum_queue(nodes):
    a, b, _ = nodes
    check, command = "health/checks/node-is-quorum-critical", "check_if_node_is_quorum_critical"
    for one in (a, b):
        assert one.get(check) == {"status": "ok"}
        assert "reported no quorum queues with minimum quorum" in one.ctl(command)
    alone = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
    a.put(f"{MIRRORED}only", {"durable": True, "arguments": alone})
    try:
        answer = a.request("GET", check)
        assert (answer.status, answer.body) == (503, {
            "status": "failed", "reason": "There are quorum queues that would lose their quorum "
            "if the target node is shut down", "queues": [{
                "name": "only", "readable_name": "queue 'only' in vhost '/'", "type": "quorum",
                "virtual_host": "/",
            }],
        })  # fmt: skip
        assert b.get(check) == {"status": "ok"}
        said = a.ctl(command, succeeds=False)
        assert f"queue 'only' in vhost '/' would lose quorum if node {a.name} is stopped" in said
        said = a.ctl("await_online_quorum_plus_one", "--timeout", "1", succeeds=False)
        assert "queue 'only' in vhost '/' would lose its quorum without the node" in said
        b.ctl("await_online_quorum_plus_one")
    finally:
        a.delete(f"{MIRRORED}only")
    assert a.get(check) == {"status": "ok"}


def test_every_node_says_which_policy_mirrors_queues(nodes):
    check, line = "check_if_cluster_has_classic_queue_mirroring_policy", "Policy of-one enables"
    set_policy(nodes[0], "of-one", **{"ha-mode": "all"})
    try:
        for node in nodes:
            assert f"{line} classic queue mirroring" in node.ctl(check, succeeds=False)
    finally:
        nodes[0].ctl("clear_policy", "of-one")


def test_rebalance_spreads_leaders_and_keeps_the_messages(nodes):
    a, b, c = nodes
    queues = [f"rebalanced{number}" for number in range(3)]
    a.ctl("set_policy", "rebalanced", "^rebalanced", '{"ha-mode": "all"}')
    for name in queues:
        declare(a, name)
        a.publish("/", name, name, {"delivery_mode": 2})
    for name in queues:
        a.wait_to_see(MIRRORED + name, is_synchronised)
    before = [a.get(MIRRORED + name)["node"] for name in queues]
    assert before == [a.name] * 3
    columns = ("Node name", "Number of quorum queues", "Number of replicated classic queues")

    def are_spread():
        led = b.ctl_json("rebalance", "classic", "--queue-pattern", "^rebalanced")
        shown = sorted(tuple(row[column] for column in columns) for row in led)
        return shown == [(node.name, 0, 1) for node in nodes]

    # A leader that is not handed over within seconds stays.
    b.wait_until(are_spread, "each node leads one")
    assert sorted(a.get(MIRRORED + name)["node"] for name in queues) == names(a, b, c)
    for name in queues:
        with c.connect() as connection:
            method, _, body = connection.channel().basic_get(name)
            assert body == name.encode(), method
        a.wait_to_see(MIRRORED + name, lambda queue: len(queue["slave_nodes"]) == 2)
        a.delete(MIRRORED + name)
    assert "[]" in a.ctl("rebalance", "all", "--queue-pattern", "^rebalanced")
    assert a.post("rebalance/queues").status == 204
