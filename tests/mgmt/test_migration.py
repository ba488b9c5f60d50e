"""`leveretctl migrate` between two nodes: both ways, broken off, refused and rolled back.

tests/mgmt/test_migration_and_rabbitmq.py has the same with RabbitMQ.
"""

import json

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.ports import free_port

BODIES = [b"%d" % number for number in range(200)]
VHOST = "moved"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A node that has no objects of other tests, since all of them are moved."""
    served = ServedNode(tmp_path_factory.mktemp("old"), name="old@localhost")
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("LEVERET_MIGRATION_PASSWORD", "guest")


@pytest.fixture
def source(old, node):
    """The old node with a vhost; both nodes lose it at the end."""
    assert old.put(f"vhosts/{VHOST}").status == 201
    yield old
    for one in (old, node):
        one.delete(f"vhosts/{VHOST}")
        one.delete("global-parameters/leveret_migration")


def address(node):
    return (
        f"amqp://guest@127.0.0.1:{node.port}",
        "--management",
        f"http://127.0.0.1:{node.http_port}",
    )


def channel_of(node):
    parameters = pika.ConnectionParameters("127.0.0.1", node.port, VHOST, heartbeat=0)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    return channel


def publish(node, queue, bodies=BODIES):
    channel = channel_of(node)
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()


def declare(node, name, **arguments):
    body = {
        "durable": True,
        "arguments": {key.replace("_", "-"): value for key, value in arguments.items()},
    }
    assert node.put(f"queues/{VHOST}/{name}", body).status == 201


def count(node, queue):
    return node.get(f"queues/{VHOST}/{queue}").get("messages")


def take(node, queue, wanted):
    """Consume until all wanted bodies have come; the messages that came, in order."""
    channel, came = channel_of(node), []
    for method, properties, body in channel.consume(queue, inactivity_timeout=0.1):
        if method is not None:
            channel.basic_ack(method.delivery_tag)
            came.append((body, properties, method.redelivered))
        if {one[0] for one in came} >= set(wanted):
            break
    channel.connection.close()
    return came


def links(node):
    return {
        one["value"]["src-queue"]: one["value"]["src-uri"].startswith("amqp:///")
        for one in node.get(f"parameters/shovel/{VHOST}")
        if one["name"].startswith("migration ")
    }


def table(ctl):
    lines = ctl("migration_status", "--formatter", "json").splitlines()
    rows = json.loads("".join(lines))
    return {row["queue"]: row for row in rows if row["vhost"] == VHOST}


def test_a_plan_says_what_is_moved_and_what_is_not_and_changes_nothing(source, node):
    declare(source, "orders", x_max_priority=5)
    source.put("users/anna", {"password": "secret", "tags": ""})
    policy = {"pattern": ".*", "definition": {"max-length": 9}, "apply-to": "queues"}
    source.put(f"policies/{VHOST}/limit", policy)
    exclusive = channel_of(source)
    exclusive.queue_declare("mine", exclusive=True)
    ends = {"src-uri": "amqp:///moved", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    value = ends | {"src-predeclared": True, "dest-predeclared": True}
    source.put(f"parameters/shovel/{VHOST}/own", {"value": value})
    said = Ctl(node)("migrate", *address(source), "--dry-run")
    exclusive.connection.close()
    source.delete(f"parameters/shovel/{VHOST}/own")
    source.delete("users/anna")
    assert "It links 1 queue by shovels (1 classic)." in said
    assert "1 queue: it belongs to a connection" in said
    assert "The source has 0 messages and 1 connection of programs." in said
    assert f"shovel 'own' in vhost '{VHOST}'" in said
    assert "global parameter 'internal_cluster_id'" in said
    assert "secret" not in said
    assert f"vhosts/{VHOST}" not in [one["name"] for one in node.get("vhosts")]
    assert node.request("GET", "global-parameters/leveret_migration").status == 404


def test_consumers_first(source, node):
    ctl = Ctl(node)
    for name, kind in (("orders", "classic"), ("bills", "quorum"), ("log", "stream")):
        declare(source, name, x_queue_type=kind)
        publish(source, name)
    source.put("users/anna", {"password": "secret", "tags": ""})
    said = ctl("migrate", *address(source), "--yes", "--no-wait")
    assert "The definitions are imported." in said
    hashes = {one.get("users/anna")["password_hash"] for one in (source, node)}
    assert len(hashes) == 1
    publish(source, "orders", [b"late"])
    came = take(node, "orders", [*BODIES, b"late"])
    assert [body for body, _, _ in came] == [*BODIES, b"late"]
    assert [body for body, _, _ in take(node, "bills", BODIES)] == BODIES
    node.wait_until(lambda: count(node, "log") == len(BODIES), "the stream is copied")
    assert table(ctl)["orders"]["at_source"] == 0
    user = channel_of(source)
    assert "127.0.0.1" in ctl.fails("finish_migration")[1]
    user.connection.close()
    source.wait_until(lambda: not source.get("connections?columns=name") or links(node), "gone")
    assert "The migration is finished" in ctl("finish_migration")
    assert links(node) == {}
    assert ctl.fails("migration_status")[1].startswith("Error:\nthere is no migration")
    source.delete("users/anna")
    node.delete("users/anna")


def test_publishers_first_and_a_roll_back(source, node):
    ctl = Ctl(node)
    declare(source, "orders")
    consumer = channel_of(source)
    consumer.basic_qos(prefetch_count=10)
    came = []
    consumer.basic_consume("orders", lambda _c, method, _p, body: (
        came.append(body), consumer.basic_ack(method.delivery_tag)))  # fmt: skip
    ctl("migrate", *address(source), "--yes", "--no-wait")
    assert links(node) == {"orders": True}
    publish(node, "orders")
    while len(came) < len(BODIES):
        consumer.connection.process_data_events(0.1)
    assert came == BODIES
    consumer.connection.close()
    ctl("migrate", "--no-wait")
    assert links(node) == {"orders": False}
    publish(node, "orders")
    assert "rolled back" in ctl("roll_back_migration")
    assert (count(source, "orders"), count(node, "orders")) == (len(BODIES), 0)
    assert links(node) == {}


def test_a_migration_goes_on_after_it_was_broken_off_and_another_is_refused(source, node):
    ctl = Ctl(node)
    declare(source, "orders")
    ctl("migrate", *address(source), "--yes", "--no-wait")
    for wrong in (("--back",), ("--back", *address(source)), address(node)):
        assert "is not ended" in ctl.fails("migrate", *wrong)[1]
    assert "Going on with the migration" in ctl("migrate", *address(source), "--no-wait")
    publish(source, "orders")
    assert "Left at the source: " in ctl("migrate", "--no-wait")
    node.wait_until(lambda: count(node, "orders") == len(BODIES), "they are moved")
    ctl("finish_migration")
    assert count(source, "orders") == 0


def test_another_node_of_the_source_takes_the_place_of_one_that_is_gone(source, node):
    """Its address tells it from the first one, and the name of the cluster from other brokers."""
    ctl = Ctl(node)
    declare(source, "orders")
    ctl("migrate", *address(source), "--yes", "--no-wait")
    uri, *management = (text.replace("127.0.0.1", "localhost") for text in address(source))
    ctl("migrate", uri, *management, "--no-wait")
    (link,) = node.get(f"parameters/shovel/{VHOST}")
    assert "@localhost" in link["value"]["src-uri"]
    assert node.get("global-parameters/leveret_migration")["value"]["uri"] == uri
    ctl("finish_migration")


def test_shovels_are_handed_over_at_the_end(source, node):
    ctl = Ctl(node)
    there = f"parameters/shovel/{VHOST}/own"
    value = {
        "src-uri": f"amqp:///{VHOST}",
        "src-queue": "a",
        "dest-uri": f"amqp:///{VHOST}",
        "dest-queue": "b",
    }
    source.put(there, {"value": value})
    source.wait_until(lambda: source.request("GET", f"queues/{VHOST}/a").status == 200, "it runs")
    source.delete(there)
    source.put(there, {"value": value})
    ctl("migrate", *address(source), "--yes", "--no-wait")
    assert node.request("GET", there).status == 404
    ctl("finish_migration", "--force")
    assert source.request("GET", there).status == 404
    assert node.get(there)["value"] == value


def test_back_to_the_other_broker(source, node):
    """The old node moves its objects to the other one: source and target are exchanged."""
    ctl = Ctl(source)
    declare(source, "orders", x_queue_type="quorum")
    publish(source, "orders")
    ctl("migrate", "--back", *address(node), "--yes", "--no-wait")
    assert [body for body, _, _ in take(node, "orders", BODIES)] == BODIES
    ctl("finish_migration")
    assert count(source, "orders") == 0
    assert links(source) == {}


def test_limits_of_the_number_of_links(source, node):
    ctl = Ctl(node)
    for number in range(3):
        declare(source, f"q{number}")
        publish(source, f"q{number}", BODIES[:3])
    ctl("migrate", *address(source), "--yes", "--no-wait", "--links", "2")
    assert len(links(node)) == 2
    ctl("migrate", "--no-wait", "--links", "1")

    def all_are_moved():
        assert len(links(node)) == 1
        ctl("migrate", "--no-wait")
        return sum(count(node, f"q{number}") or 0 for number in range(3)) == 9

    node.wait_until(all_are_moved, "links follow the messages")
    ctl("finish_migration")


# Refusals


def test_users_without_rights_are_refused(source, node, monkeypatch):
    source.put("users/monitor", {"password": "m", "tags": "monitoring"})
    monkeypatch.setenv("LEVERET_MIGRATION_PASSWORD", "m")
    uri, *management = address(source)
    uri = uri.replace("guest", "monitor")
    said = Ctl(node).fails("migrate", uri, *management, "--yes")[1]
    assert "user 'monitor'" in said
    assert "has no tag administrator" in said
    monkeypatch.setenv("LEVERET_MIGRATION_PASSWORD", "wrong")
    assert "log in" in Ctl(node).fails("migrate", uri, *management, "--yes")[1]
    source.put("users/monitor", {"password": "m", "tags": "administrator"})
    declare(source, "orders")
    monkeypatch.setenv("LEVERET_MIGRATION_PASSWORD", "m")
    said = Ctl(node).fails("migrate", uri, *management, "--yes")[1]
    assert f"rabbitmqctl set_permissions -p {VHOST} monitor" in said
    assert "Nothing is changed" in said
    source.delete("users/monitor")


def test_a_source_that_is_away(node):
    port = free_port()
    code, said = Ctl(node).fails(
        "migrate", f"amqp://guest@127.0.0.1:{port}", "--management", f"http://127.0.0.1:{port}"
    )
    assert (code, f"127.0.0.1:{port}" in said, "Nothing is changed" in said) == (69, True, True)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("amqp://guest:secret@old", "the URI has a password"),
        ("amqp://guest@old/orders", "all virtual hosts are moved"),
        ("amqp://", "names no host"),
        ("http://old", "not a valid URI"),
    ],
)
def test_addresses_that_are_refused(node, uri, said):
    found = Ctl(node).fails("migrate", uri, "--management", "http://old:15672")[1]
    assert said in found
    assert "secret" not in found.replace(uri, "")


def test_a_password_is_read_from_a_file_and_shown_nowhere(source, node, tmp_path, monkeypatch):
    monkeypatch.delenv("LEVERET_MIGRATION_PASSWORD")
    source.put("users/mover", {"password": "s3cret:@/", "tags": "administrator"})
    source.put(f"permissions/{VHOST}/mover", {"configure": "", "write": ".*", "read": ".*"})
    declare(source, "orders")
    publish(source, "orders")
    (tmp_path / "password").write_text("s3cret:@/\n")
    uri, *management = address(source)
    ctl, given = Ctl(node), ("--password-file", tmp_path / "password")
    said = ctl("migrate", uri.replace("guest", "mover"), *management, *given, "--yes", "--no-wait")
    node.wait_until(lambda: count(node, "orders") == len(BODIES), "they are moved")
    said += ctl("migration_status", *given)
    assert "s3cret" not in said + node.log + json.dumps(node.get("global-parameters"))
    assert "password of mover is missing" in ctl.fails("migration_status")[1]
    ctl("finish_migration", *given)
    for one in (source, node):
        one.delete("users/mover")
