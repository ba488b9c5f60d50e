"""Any node's API, metrics and leveretctl show the whole cluster, with real clients."""

import contextlib
import random
import signal
from urllib.parse import quote

import pika
import pytest

from leveret.mgmt.api.file_pieces import PIECE_OCTETS
from tests.cluster.managed_nodes import form_managed
from tests.patience import PATIENCE_SECONDS

EVERY_VHOST = "%2F"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("cluster"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


class Clients(list):
    """A channel of a connection to each node. names: of the connections, in the order of nodes.

    There may be connections of earlier tests beside them, which are about to end.
    """

    def __init__(self, nodes, name, vhost="/"):
        self.connections = [node.connect(name, vhost) for node in nodes]
        super().__init__(connection.channel() for connection in self.connections)
        shown = {
            one["node"]: one["name"]
            for one in nodes[0].get("connections")
            if one["user_provided_name"] == name
        }
        self.names = [shown[node.name] for node in nodes]

    def of(self, found):
        """Those of these connections, or of their channels."""
        details = [one.get("connection_details", one) for one in found]
        return [one for one, of in zip(found, details, strict=True) if of["name"] in self.names]

    def close(self):
        for connection in self.connections:
            # A test may have closed it.
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.fixture
def clients(nodes, request):
    clients = Clients(nodes, request.node.name)
    yield clients
    clients.close()


@pytest.fixture
def queue(nodes, clients, request):
    """A queue on the second node with the name of the test, and two messages."""
    name = request.node.name
    clients[1].queue_declare(name, durable=True)
    clients[1].confirm_delivery()
    for body in (b"1", b"2"):
        clients[1].basic_publish("", name, body)
    yield name
    nodes[1].delete(f"queues/{EVERY_VHOST}/{name}")


def names_of(nodes):
    return [node.name for node in nodes]


def get_one(node, queue):
    return node.get(f"queues/{EVERY_VHOST}/{queue}")


# Delayed messages


def test_delayed_messages_of_all_nodes_are_listed_sent_and_cancelled_by_any(nodes, clients, queue):
    clients[0].exchange_declare(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    clients[0].queue_bind(queue, "later")
    for number, channel in enumerate(clients):
        channel.confirm_delivery()
        properties = pika.BasicProperties(
            message_id=f"m{number}", headers={"x-delay": 3_600_000 + number * 100_000}
        )
        channel.basic_publish("later", "k", b"x", properties)
    where = f"exchanges/{EVERY_VHOST}/later"
    found = nodes[0].get(f"{where}/delayed")
    assert [one["node"] for one in found["items"]] == names_of(nodes)
    assert (found["messages"], nodes[2].get(where)["messages_delayed"]) == (3, 3)
    assert [one["node"] for one in nodes[0].get(f"{where}/delayed?count=1")["items"]] == [
        nodes[0].name
    ]
    assert nodes[0].post(f"{where}/delayed/cancel", {"message_ids": ["m1"]}).body == {
        "cancelled": 1
    }
    assert nodes[1].post(f"{where}/delayed/send", {"all": True}).body == {"sent": 2}
    nodes[0].wait_to_see(
        f"queues/{EVERY_VHOST}/{queue}", lambda found: found.get("messages_ready") == 4
    )
    clients[0].exchange_delete("later")


# Lists


def test_connections_and_channels_of_all_nodes_are_listed_by_each(nodes, clients):
    for node in nodes:
        for path in ("connections", f"vhosts/{EVERY_VHOST}/connections", "channels"):
            found = node.wait_to_see(path, lambda found: len(clients.of(found)) == len(nodes))
            assert sorted(one["node"] for one in clients.of(found)) == names_of(nodes)


def test_a_list_is_sorted_and_has_pages_over_all_nodes(nodes):
    nodes[0].put("vhosts/paged")
    clients = Clients(nodes, "paged", "paged")
    for node in nodes:
        where = "vhosts/paged/connections?sort=node&sort_reverse=true&columns=node&page_size=2"
        first, second = node.get(f"{where}&page=1"), node.get(f"{where}&page=2")
        shown = [one["node"] for page in (first, second) for one in page["items"]]
        assert shown == names_of(nodes)[::-1]
        assert (first["total_count"], first["page_count"]) == (3, 2)
    clients.close()


def test_a_connection_is_shown_and_closed_by_any_node(nodes, clients):
    name = quote(clients.names[1], safe="")
    assert nodes[2].get(f"connections/{name}")["node"] == nodes[1].name
    (channel,) = nodes[2].get(f"connections/{name}/channels")
    assert nodes[0].get(f"channels/{quote(channel['name'], safe='')}")["node"] == nodes[1].name
    assert nodes[2].delete(f"connections/{name}", headers={"X-Reason": "enough"}).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        clients[1].connection.process_data_events(time_limit=PATIENCE_SECONDS)
    assert nodes[0].request("GET", f"connections/{name}").status == 404


def test_the_connections_of_a_user_are_closed_on_all_nodes(nodes):
    nodes[0].put("users/carl", {"password": "secret", "tags": ""})
    nodes[0].put(
        f"permissions/{EVERY_VHOST}/carl", dict.fromkeys(("configure", "write", "read"), "")
    )
    connections = [node.connect(user="carl", password="secret") for node in nodes]
    assert len(nodes[1].get("connections/username/carl")) == len(nodes)
    assert nodes[2].delete("connections/username/carl").status == 204
    for connection in connections:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(time_limit=PATIENCE_SECONDS)


def test_the_limit_of_a_user_counts_its_connections_to_all_nodes(nodes):
    nodes[0].put("users/lena", {"password": "secret", "tags": ""})
    nodes[0].put(
        f"permissions/{EVERY_VHOST}/lena", dict.fromkeys(("configure", "write", "read"), "")
    )
    nodes[0].put("user-limits/lena/max-connections", {"value": 2})
    a, b, c = nodes

    def connect(node):
        return node.connect(user="lena", password="secret")

    def is_refused():
        # One that comes while the others have not told their counts yet is accepted.
        try:
            connect(c).close()
        except pika.exceptions.ProbableAccessDeniedError as refused:
            return "user connection limit (2) is reached" in str(refused)
        return False

    with connect(a), connect(b):
        nodes[2].wait_until(is_refused, "the connections to other nodes count")
    nodes[2].wait_until(lambda: not is_refused(), "they count no more")
    nodes[0].delete("users/lena")


def test_a_user_without_monitoring_sees_its_own_connections_on_all_nodes(nodes, clients):
    nodes[0].put("users/dora", {"password": "secret", "tags": "management"})
    nodes[0].put(
        f"permissions/{EVERY_VHOST}/dora", dict.fromkeys(("configure", "write", "read"), "")
    )
    with nodes[1].connect(user="dora", password="secret"):
        (own,) = nodes[0].get("connections", user="dora:secret")
        assert (own["user"], own["node"]) == ("dora", nodes[1].name)
    other = quote(clients.names[1], safe="")
    for node in nodes:
        refused = node.request("GET", f"connections/{other}", user="dora:secret")
        assert refused.status == 401


# Queues


def test_a_queue_on_another_node_is_shown_with_its_figures(nodes, queue):
    for node in nodes:
        (listed,) = [one for one in node.get("queues") if one["name"] == queue]
        shown = get_one(node, queue)
        for one in (listed, shown):
            assert (one["node"], one["messages"], one["state"]) == (nodes[1].name, 2, "running")
            assert one["memory"] > 0
        published = node.wait_to_see(
            f"queues/{EVERY_VHOST}/{queue}", lambda one: "message_stats" in one
        )
        assert published["message_stats"]["publish"] == 2


def test_consumers_are_shown_with_the_nodes_of_their_channels(nodes, clients, queue):
    for tag, client in zip("xyz", clients, strict=True):
        client.basic_qos(prefetch_count=1)
        client.basic_consume(queue, lambda *_: None, consumer_tag=tag)
    for node in nodes:
        for path, field in ((f"queues/{EVERY_VHOST}/{queue}", "consumer_details"),
                            (f"consumers/{EVERY_VHOST}", None)):  # fmt: skip

            def own(found, field=field):
                consumers = found[field] if field else found
                return [one for one in consumers if one["queue"]["name"] == queue]

            def has_deliveries(found, own=own):
                return sum(one["messages_unacknowledged"] for one in own(found)) == 2

            found = own(node.wait_to_see(path, has_deliveries))
            shown = {one["consumer_tag"]: one["channel_details"]["node"] for one in found}
            assert shown == dict(zip("xyz", names_of(nodes), strict=True))
    for path in ("channels", "connections"):
        assert len(clients.of(nodes[0].get(path))) == len(nodes)


def test_the_active_consumer_is_known_on_all_nodes(nodes, clients):
    clients[0].queue_declare("single", arguments={"x-single-active-consumer": True})
    for tag, client in zip("xyz", (clients[1], clients[0], clients[2]), strict=True):
        client.basic_consume("single", lambda *_: None, consumer_tag=tag)
    for node in nodes:
        found = [one for one in node.get("consumers") if one["queue"]["name"] == "single"]
        shown = {one["consumer_tag"]: one["active"] for one in found}
        assert shown == {"x": True, "y": False, "z": False}
    clients[0].queue_delete("single")


def test_messages_are_got_purged_and_published_through_any_node(nodes, queue):
    where = f"queues/{EVERY_VHOST}/{queue}"
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (got,) = nodes[0].post(f"{where}/get", asked).body
    assert (got["payload"], got["message_count"]) == ("1", 1)
    assert nodes[2].publish("/", queue, "3")
    assert get_one(nodes[0], queue)["messages"] == 2
    assert nodes[2].delete(f"{where}/contents").status == 204
    assert get_one(nodes[0], queue)["messages"] == 0
    assert nodes[0].delete(where).status == 204
    assert nodes[1].request("GET", where).status == 404


def test_the_workbench_works_on_a_queue_of_another_node(nodes, clients, queue):
    where = f"queues/{EVERY_VHOST}/{queue}/messages"
    first, second = nodes[0].get(where)["messages"]
    assert [first["payload"], second["payload"]] == ["1", "2"]
    assert nodes[2].post(f"{where}/count", {"all": True, "body": "2"}).body == {"matching": 1}
    clients[2].queue_declare("aside")
    moved = nodes[0].post(f"{where}/move", {"ids": [first["id"]], "destination": "aside"}).body
    assert moved == {"done": 1, "failed": []}
    nodes[0].wait_to_see(f"queues/{EVERY_VHOST}/aside", lambda one: one["messages"] == 1)
    to = {"exchange": "", "routing_key": "aside"}
    assert nodes[0].post(f"{where}/retry", {"all": True, "to": to}).body["done"] == 1
    assert (
        nodes[2].post(f"queues/{EVERY_VHOST}/aside/messages/delete", {"all": True}).body["done"]
        == 2
    )
    clients[2].queue_delete("aside")


def test_the_workbench_checks_the_permissions_of_the_user_on_the_queues_node(nodes, queue):
    nodes[0].put("users/emil", {"password": "secret", "tags": "management"})
    nodes[0].put(
        f"permissions/{EVERY_VHOST}/emil", {"configure": "", "write": "", "read": "nothing"}
    )
    refused = nodes[0].request("GET", f"queues/{EVERY_VHOST}/{queue}/messages", user="emil:secret")
    assert refused.status == 401


def test_a_queue_is_declared_on_the_node_that_is_named(nodes):
    where = f"queues/{EVERY_VHOST}/placed"
    assert nodes[0].put(where, {"node": nodes[2].name}).status == 201
    assert get_one(nodes[1], "placed")["node"] == nodes[2].name
    assert nodes[0].put(where, {"node": nodes[2].name}).status == 204
    refused = nodes[0].put(where, {"node": "z@nowhere"})
    assert (refused.status, refused.body["reason"]) == (
        400,
        "Node z@nowhere could not be contacted",
    )
    nodes[0].delete(where)


# Files of traces


@pytest.fixture
def trace_file(nodes):
    """A file of the second node that takes several pieces. Its path below /api, and its content."""
    path = nodes[1].data_dir / "trace" / "vhost=x" / "date=y" / "hour=z" / "0.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(1).randbytes(2 * PIECE_OCTETS + 1))
    name = quote(str(path.relative_to(nodes[1].data_dir / "trace")), safe="")
    yield f"trace-files/node/{nodes[1].name}/{name}", path.read_bytes()
    path.unlink(missing_ok=True)


def test_a_trace_file_is_downloaded_and_deleted_through_any_node(nodes, trace_file):
    where, content = trace_file
    for node in nodes:
        status, found, headers = node.fetch(where)
        assert (status, headers["Content-Type"]) == (200, "application/gzip")
        assert found == content
        head = node.request("HEAD", where)
        assert (head.status, head.headers["Content-Length"]) == (200, str(len(content)))
    assert nodes[0].request("GET", where.replace("0.jsonl", "1.jsonl")).status == 404
    assert nodes[2].delete(where).status == 204
    assert [node.request("GET", where).status for node in nodes] == [404] * len(nodes)


def test_a_trace_file_is_for_administrators_and_of_a_member(nodes, trace_file):
    where, _ = trace_file
    nodes[0].put("users/fred", {"password": "secret", "tags": "monitoring"})
    assert nodes[0].request("GET", where, user="fred:secret").status == 401
    other = nodes[0].request("GET", where.replace(nodes[1].name, "z@nowhere"))
    assert (other.status, other.body["reason"]) == (
        400,
        "Node z@nowhere could not be contacted: {badrpc,nodedown}",
    )


# Totals


def test_the_overview_adds_up_what_all_nodes_have(nodes, clients, queue):
    counts = {"connections": 3, "channels": 3, "queues": 1}

    def has_them_all(found):
        has_counts = found["object_totals"].items() >= counts.items()
        has_messages = found["queue_totals"].get("messages") == 2
        return has_counts and has_messages and found["message_stats"].get("publish", 0) >= 2

    for node in nodes:
        found = node.wait_to_see("overview", has_them_all)
        links = {
            (one["node"], one["port"])
            for one in found["listeners"]
            if one["protocol"] == "clustering"
        }
        assert links == {(one.name, one.link_port) for one in nodes}
        assert found["node"] == node.name


def test_statistics_of_exchanges_and_vhosts_are_sums_over_the_nodes(nodes, clients, queue):
    for channel in clients:
        channel.exchange_declare("spread", "fanout")
        channel.queue_bind(queue, "spread")
        channel.basic_publish("spread", "", b"x")
    for node in nodes:
        for path in (f"exchanges/{EVERY_VHOST}/spread", "exchanges?sort=message_stats.publish_in"):

            def seen(found):
                shown = (
                    found
                    if isinstance(found, dict)
                    else {one["name"]: one for one in found}["spread"]
                )
                return shown.get("message_stats", {}).get("publish_in") == 3

            node.wait_to_see(path, seen)
        vhost = node.wait_to_see(f"vhosts/{EVERY_VHOST}", lambda one: one["messages"] == 5)
        assert sorted(vhost["cluster_state"]) == names_of(nodes)
    clients[0].exchange_delete("spread")


def test_each_node_is_shown_by_all(nodes):
    for node in nodes:
        shown = node.wait_to_see(
            "nodes", lambda all_nodes: all(one.get("mem_used") for one in all_nodes)
        )
        assert [one["name"] for one in shown] == names_of(nodes)
        assert all(one["running"] for one in shown)
        other = node.get(f"nodes/{nodes[1].name}?memory=true")
        assert (other["name"], other["os_pid"]) == (nodes[1].name, str(nodes[1].process.pid))
        assert other["memory"]["total"]["rss"] > 0
    assert nodes[0].request("GET", "nodes/z@nowhere").status == 404


def test_each_node_has_the_metrics_of_its_own_queues_and_clients(nodes, clients, queue):
    pages = [node.metrics("metrics/per-object") for node in nodes]
    with_queue = [any(f'queue="{queue}"' in line for line in page) for page in pages]
    assert with_queue == [False, True, False]
    for node, page in zip(nodes, map(type(nodes[0]).metrics, nodes), strict=True):
        node.wait_until(lambda node=node: "rabbitmq_connections 1" in node.metrics(), "it has one")
        (identity,) = [line for line in page if line.startswith("rabbitmq_identity_info{")]
        assert f'rabbitmq_node="{node.name}"' in identity
        assert f'rabbitmq_cluster="{nodes[0].name}"' in identity
        shared = nodes[0].get("global-parameters/internal_cluster_id")["value"]
        assert f'rabbitmq_cluster_permanent_id="{shared}"' in identity


def test_the_audit_log_tells_what_was_done_on_which_node(nodes):
    for name, node in zip(("ada", "ben"), nodes, strict=False):
        node.put(f"users/{name}", {"password": "secret", "tags": ""})
    for node in nodes:
        lines = {one["name"]: one["node"] for one in node.get("audit") if one["kind"] == "user"}
        assert (lines["ada"], lines["ben"]) == (nodes[0].name, nodes[1].name)


# leveretctl


def test_leveretctl_lists_what_all_nodes_have(nodes, clients, queue):
    clients[2].basic_consume(queue, lambda *_: None, consumer_tag="far")
    for node in nodes:
        for command in ("list_connections", "list_channels"):
            shown = [one["name"].removesuffix(" (1)") for one in node.ctl_json(command, "name")]
            assert set(clients.names) <= set(shown)
        assert "far" in node.ctl("list_consumers")
        local = node.ctl("list_queues", "--local", "name", "--no-table-headers").split()
        assert local == ([queue] if node is nodes[1] else [])
        assert node.ctl("list_queues", "--offline", "name", "--no-table-headers").split() == []


def test_leveretctl_closes_a_connection_on_another_node(nodes, clients):
    pids = {one["name"]: one["pid"] for one in nodes[0].ctl_json("list_connections", "name", "pid")}
    nodes[0].ctl("close_connection", pids[clients.names[1]], "enough")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        clients[1].connection.process_data_events(time_limit=PATIENCE_SECONDS)
    nodes[1].ctl("close_all_connections", "done")
    for client in (clients[0], clients[2]):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="done"):
            client.connection.process_data_events(time_limit=PATIENCE_SECONDS)


def test_leveretctl_asks_another_node_by_its_name(nodes):
    a, b, _ = nodes
    status = a.ctl_json("-n", b.name, "status")
    assert (status["node"], status["pid"]) == (b.name, b.process.pid)
    shown = a.ctl("-n", "b", "cluster_status")
    assert f"Node: {b.name}" in shown
    assert (
        f"port: {b.link_port}, protocol: clustering, purpose: inter-node and CLI tool communication"
        in shown
    )
    assert "on the machine of node" in a.ctl("-n", b.name, "stop_app", succeeds=False)
    assert "z@nowhere" in a.ctl("-n", "z@nowhere", "status", succeeds=False)


def test_only_users_of_the_control_socket_choose_the_node_that_answers(nodes):
    a, b, _ = nodes
    answer = a.request("GET", "overview", headers={"X-Leveret-Node": b.name})
    assert answer.body["node"] == a.name


# Nodes that do not answer; these tests come last, since they suspend and kill a node.


def with_left_out(node, path, other):
    """What a node answers without one other node; None if not just that one is left out."""
    answer = node.request("GET", path)
    return answer if answer.headers["X-Leveret-Nodes-Left-Out"] == other.name else None


def test_a_suspended_node_is_left_out_after_a_short_wait_and_marked(nodes, clients):
    a, _, c = nodes
    clients[2].queue_declare("far", durable=True)
    c.process.send_signal(signal.SIGSTOP)
    try:
        # On a busy machine the other node, too, may give no sign of life for so long.
        answer = a.wait_to_have(lambda: with_left_out(a, "connections", c), "only c is left out")
        assert sorted(one["node"] for one in clients.of(answer.body)) == names_of(nodes)[:2]
        (silent,) = [one for one in a.get("nodes") if one["name"] == c.name]
        assert (silent["running"], silent["answering"]) == (True, False)
        assert a.get(f"nodes/{c.name}")["answering"] is False
        (far,) = [one for one in a.get("queues") if one["name"] == "far"]
        assert (far["node"], far["state"]) == (c.name, "down")
        assert get_one(a, "far")["state"] == "down"
        warning = f"Warning: node {c.name} does not answer: its objects are not shown"
        for command in ("list_connections", "cluster_status"):
            assert warning in a.ctl(command)
        assert f"{c.name}: does not answer" in a.ctl("cluster_status")
    finally:
        c.process.send_signal(signal.SIGCONT)


def test_a_node_that_is_down_is_shown_so_and_its_durable_queues_are(nodes, clients):
    a, _, c = nodes
    clients[2].queue_declare("far", durable=True)
    c.stop(signal.SIGKILL)
    a.wait_to_see("nodes", lambda shown: [one["running"] for one in shown] == [True, True, False])
    assert len(clients.of(a.get("connections"))) == len(nodes) - 1
    assert "rabbitmq_unreachable_cluster_peers_count 1" in a.metrics()
    assert "rabbitmq_mirrored_queues_with_late_confirms 0" in a.metrics()
    assert get_one(a, "far")["state"] == "down"
    assert a.post(f"queues/{EVERY_VHOST}/far/actions", {"action": "sync"}).status == 503
    assert a.ctl("list_queues", "--offline", "name", "--no-table-headers").split() == ["far"]
    assert a.ctl("list_queues", "--online", "name", "--no-table-headers").split() == []
    assert a.get(f"nodes/{c.name}")["running"] is False
