"""Members of quorum queues on three real nodes: added and removed, and what is left when nodes go.

The nodes are started once for all tests. Each test has queues of its own, and leaves all running.
"""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.clients import take
from tests.cluster.managed_nodes import ManagedNode
from tests.cluster.quorum_steps import QUORUM, bodies, declare, shown, wait_until_shown
from tests.cluster.test_renaming import rename

RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
SETTINGS = (f"{RECONCILIATION}.enabled = true", f"{RECONCILIATION}.trigger_interval = 10")
RESTRICTED = "management.restrictions.quorum_queue_replica_operations.disabled = true"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("members")
    nodes = [ManagedNode(directory, name, *SETTINGS) for name in "ab"]
    nodes.append(ManagedNode(directory, "c", *SETTINGS, RESTRICTED))
    for node in nodes[1:]:
        node.join(nodes[0])
    yield nodes
    for node in nodes:
        node.stop()


def test_a_member_is_removed_and_added(cluster):
    a, b, c = cluster
    declare(a, "changed", b"1", b"2")
    for _ in range(2):
        assert b.ctl("delete_member", "changed", c.name) == ""
        assert shown(c, "changed")[1] == [a.name, b.name]
    for _ in range(2):
        assert c.ctl("add_member", "changed", c.name) == ""
        assert shown(a, "changed")[1] == [a.name, b.name, c.name]
    # The leader is removed: another one leads.
    a.ctl("delete_member", "changed", a.name)
    a.wait_until(lambda: shown(a, "changed")[0] in (b.name, c.name), "another member leads")
    assert bodies(a, "changed", 2) == [b"1", b"2"]


def test_the_last_member_stays(cluster):
    a, b, c = cluster
    declare(a, "last", b"1", **{"x-quorum-initial-group-size": 2})
    assert "error: the last node" not in a.ctl("shrink", b.name)
    shrunk = a.ctl("shrink", a.name, "--errors-only")
    assert "last\t1\terror: the last node cannot be removed" in shrunk
    assert "last_node" in a.ctl("delete_member", "last", a.name, succeeds=False)
    assert a.ctl("grow", c.name, "even", "--queue-pattern", "^last$") == ""
    chosen = ("--queue-pattern", "^last$", "--membership", "non_voter")
    assert a.ctl_json("grow", c.name, "all", *chosen) == [
        {"vhost": "/", "name": "last", "size": 2, "result": "ok"}
    ]
    # The new member has no vote: the queue works without it.
    c.stop()
    declare(a, "last", b"2", **{"x-quorum-initial-group-size": 2})
    c.start()
    assert bodies(b, "last", 2) == [b"1", b"2"]


def test_what_cannot_be_changed_is_refused_with_rabbitmqs_words(cluster):
    a, b, _ = cluster
    declare(a, "refused")
    with a.connect() as connection:
        connection.channel().queue_declare("classic", durable=True)
    for command in ("add_member", "delete_member"):
        said = a.ctl(command, "none", b.name, succeeds=False)
        assert said == "Error:\nnot_found\n"
        said = a.ctl(command, "classic", b.name, succeeds=False)
        assert said == "Error:\nCannot add members to a classic queue\n"
    said = a.ctl("add_member", "refused", "nobody@localhost", succeeds=False)
    assert said == "Error:\nnode_not_running\n"
    said = a.ctl("add_member", "refused", b.name, "--membership", "king", succeeds=False)
    assert "voter status 'king' is not recognised." in said
    said = a.ctl("grow", "nobody@localhost", "all", succeeds=False)
    assert "node nobody@localhost is not a member of this cluster" in said


def test_members_are_changed_by_the_api_as_in_rabbitmq_4(cluster):
    a, b, c = cluster
    declare(a, "api", **{"x-quorum-initial-group-size": 1})
    body = {"node": c.name, "membership": "promotable"}
    add, delete = (f"queues/quorum/%2F/api/replicas/{act}" for act in ("add", "delete"))
    assert a.post(add, body).status == 204
    assert shown(a, "api")[1] == [a.name, c.name]
    assert b.request("DELETE", delete, body).status == 202
    assert shown(a, "api")[1] == [a.name]
    refused = a.post(add, {"node": "nobody@localhost"})
    assert (refused.status, refused.body["reason"]) == (503, "node_not_running")
    assert a.post(add.replace("api", "none"), body).status == 404
    assert a.post(add, {"node": c.name, "membership": "king"}).status == 400
    on_node = f"queues/quorum/replicas/on/{c.name}"
    growing = {"vhost_pattern": ".*", "queue_pattern": "^api$", "strategy": "all"}
    assert a.post(f"{on_node}/grow", growing).status == 204
    assert shown(a, "api")[1] == [a.name, c.name]
    assert a.request("DELETE", f"{on_node}/shrink").status == 202
    assert shown(a, "api")[1] == [a.name]
    refused = c.post(add, body)
    assert (refused.status, refused.body["error"]) == (405, "method_not_allowed")
    assert c.ctl("add_member", "api", c.name) == "", "the setting is for clients of the API"


def test_a_queue_goes_on_with_one_member_when_the_others_are_given_up(cluster):
    a, b, c = cluster
    declare(a, "recovered", b"1", b"2")
    said = a.ctl("force_shrink_member_to_current_member", "recovered", succeeds=False)
    assert "the queue has a leader, on node" in said
    for node in (b, c):
        node.stop(signal.SIGKILL)
    a.ctl("force_shrink_member_to_current_member", "recovered")
    assert "will continue with only its member on node" in a.log
    wait_until_shown(a, "recovered", a, a)
    declare(a, "recovered", b"3")
    for node in (b, c):
        node.start()
    # What they had belongs to a queue that was given up.
    for node in (b, c):
        assert shown(node, "recovered")[1] == [a.name]
    # The new member gets everything: the queue goes on without the member that it was taken from.
    a.ctl("add_member", "recovered", b.name)
    a.ctl("delete_member", "recovered", a.name)
    wait_until_shown(c, "recovered", b, b)
    assert bodies(c, "recovered", 3) == [b"1", b"2", b"3"]


def test_all_queues_that_have_no_leader_are_recovered(cluster):
    a, b, c = cluster
    declare(a, "works", b"1", **{"x-quorum-initial-group-size": 1})
    declare(a, "lost", b"1")
    for node in (b, c):
        node.stop(signal.SIGKILL)
    done = a.ctl_json("force_all_queues_shrink_member_to_current_member")
    assert {"vhost": "/", "name": "lost", "result": "ok"} in done
    assert "works" not in [one["name"] for one in done]
    for node in (b, c):
        node.start()
    assert bodies(b, "lost", 1) == [b"1"]


def test_a_queue_with_too_few_members_gets_more(cluster):
    a, b, c = cluster
    declare(a, "small", b"1", **{"x-quorum-initial-group-size": 1})
    a.ctl("set_policy", "larger", "^small$", '{"target-group-size": 3}', "--apply-to", "queues")
    names = [a.name, b.name, c.name]
    a.wait_until(lambda: shown(a, "small")[1] == names, "it has members on all nodes")
    a.ctl("clear_policy", "larger")


def test_a_hundred_queues_are_declared_while_a_node_starts(cluster):
    a, b, c = cluster
    c.stop(signal.SIGKILL)
    queues = [f"many{number}" for number in range(100)]

    def declare_some(node, some):
        if node is c:
            node.wait_until(lambda: node.is_ready, "it is ready")
        declare_all(node, some)

    c.start(waits=False)
    shares = [(a, queues[:45]), (b, queues[45:90]), (c, queues[90:])]
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(declare_some, *share) for share in shares]:
            done.result()
    for node in (a, c):
        rows = {row["name"]: row for row in node.ctl_json("list_queues", "name", "members")}
        assert all(len(rows[queue]["members"]) == 3 for queue in queues)
    with c.connect() as connection:
        channel = connection.channel()
        for queue in queues:
            assert [body for body, _ in take(channel, queue, 1)] == [queue.encode()]
            channel.queue_delete(queue)


def declare_all(node, queues):
    """Quorum queues with a message each."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in queues:
            channel.queue_declare(queue, durable=True, arguments=QUORUM)
            channel.basic_publish("", queue, queue.encode(), mandatory=True)


@pytest.mark.parametrize("dies", [0, 1, 2], ids=["leader", "other", "new"])
def test_a_member_is_added_although_a_node_dies_meanwhile(cluster, dies):
    queue = f"cut{dies}"
    leader, other, new = cluster
    declare(leader, queue, b"1", b"2", **{"x-quorum-initial-group-size": 2})
    members = shown(leader, queue)[1]
    other, new = sorted(cluster[1:], key=lambda node: node.name not in members)
    with ThreadPoolExecutor() as threads:
        adding = threads.submit(other._run_ctl, "add_member", queue, new.name)
        (leader, other, new)[dies].stop(signal.SIGKILL)
        (leader, other, new)[dies].start()
        adding.result()
    # It may have died before the command was carried out.
    other.ctl("add_member", queue, new.name)
    other.ctl("delete_member", queue, leader.name)
    other.ctl("delete_member", queue, other.name)
    wait_until_shown(other, queue, new, new)
    assert bodies(leader, queue, 2) == [b"1", b"2"]


def test_members_stay_on_nodes_that_are_renamed(cluster):
    a, b, c = cluster
    declare(b, "renamed", b"1")
    b.stop()
    rename(b, b.name, "beta@127.0.0.1")
    b.start()
    assert shown(a, "renamed")[1] == sorted([a.name, b.name, c.name])
    pairs = [(node.name, node.name.replace("@", "2@")) for node in cluster]
    for node in cluster:
        node.stop()
    for node, own in zip(cluster, pairs, strict=True):
        others = [name for pair in pairs if pair is not own for name in pair]
        rename(node, *own, *others)
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_for_log(" ready in")
    declare(c, "renamed", b"2")
    for other in (a, c):
        b.ctl("delete_member", "renamed", other.name)
    wait_until_shown(b, "renamed", b, b)
    assert bodies(a, "renamed", 2) == [b"1", b"2"]
