"""A standby follows the definitions of another node, and is promoted."""

import json
import signal

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.mgmt.standby_nodes import (
    ROUTE,
    declare,
    follow,
    has,
    in_path,
    status,
    two_nodes,
    wait_for_state,
    wait_until_followed,
)
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two nodes that tests share."""
    found = two_nodes(tmp_path_factory.mktemp)
    yield found
    for one in found:
        one.stop()


@pytest.fixture
def nodes(pair):
    """The two nodes as a test finds them: with neither queues nor a setting."""
    yield pair
    for one in reversed(pair):
        one.delete(ROUTE)
        for path in FILLED:
            one.delete(path)
        for queue in one.get("queues"):
            one.delete(f"queues/{in_path(queue['vhost'])}/{in_path(queue['name'])}")
        for vhost in one.get("vhosts"):
            if vhost["name"] != "/":
                one.delete(f"vhosts/{in_path(vhost['name'])}")


@pytest.fixture
def upstream(nodes):
    return nodes[0]


@pytest.fixture
def standby(nodes):
    return nodes[1]


VHOST = "größe/日本"


def fill(node):
    """Declare one object of each kind."""
    node.put(f"vhosts/{in_path(VHOST)}", {"description": "another", "tags": "a,b"})
    node.put("users/ann", {"password": "secret", "tags": "management"})
    node.put("permissions/%2F/ann", {"configure": "^a", "write": ".*", "read": ".*"})
    node.put("topic-permissions/%2F/ann", {"exchange": "t", "write": "a", "read": "b"})
    node.put("user-limits/ann/max-connections", {"value": 7})
    node.put("vhost-limits/%2F/max-queues", {"value": 1000})
    node.put("global-parameters/colour", {"value": {"r": 1}})
    node.put("parameters/federation-upstream/%2F/up", {"value": {"uri": "amqp://nowhere:1"}})
    node.put("policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2})
    node.put("operator-policies/%2F/o", {"pattern": "^q", "definition": {"max-length": 9}})
    node.put("exchanges/%2F/x", {"type": "topic", "durable": True})
    node.put("exchanges/%2F/y", {"type": "fanout", "durable": True, "internal": True})
    declare(node, "q", arguments={"x-max-priority": 3, "x-message-ttl": 60000})
    declare(node, "日本/ %", vhost=VHOST)
    node.post("bindings/%2F/e/x/q/q", {"routing_key": "a.*", "arguments": {"n": 1}})
    node.post("bindings/%2F/e/x/e/y", {"routing_key": "#"})


FILLED = (
    "users/ann", "global-parameters/colour", "parameters/federation-upstream/%2F/up",
    "policies/%2F/p", "operator-policies/%2F/o", "vhost-limits/%2F/max-queues", "exchanges/%2F/x",
    "exchanges/%2F/y",
)  # fmt: skip
KINDS = (
    "users", "permissions", "topic_permissions", "parameters", "policies", "exchanges", "queues",
    "bindings",
)  # fmt: skip


def everything(node):
    """The definitions as a set of texts for each kind."""
    found = node.get("definitions")
    listed = {kind: {json.dumps(one, sort_keys=True) for one in found[kind]} for kind in KINDS}
    return listed | {"vhosts": {one["name"] for one in found["vhosts"]}}


def test_everything_is_followed(upstream, standby):
    fill(upstream)
    follow(standby, upstream, local_users=[])
    shown = wait_for_state(standby, "syncing")
    assert (shown["operating_mode"], shown["kept"], shown["problems"]) == ("downstream", [], [])
    assert everything(standby) == everything(upstream)
    assert standby.get("global-parameters/colour")["value"] == {"r": 1}
    assert standby.get("cluster-name")["name"] == standby.name
    # What does not differ costs one small answer.
    unchanged = shown["syncs"]["unchanged"]
    standby.wait_until(lambda: status(standby)["syncs"]["unchanged"] > unchanged, "it asks again")
    assert "Followed the definitions of" in standby.log
    metrics = standby.metrics()
    assert 'rabbitmq_schema_replication_state{state="syncing"} 1' in metrics
    assert 'rabbitmq_schema_replication_syncs_total{result="failed"} 0' in metrics
    assert "schema_replication" not in upstream.metrics()
    # A user of the upstream can log in with the password that it has there.
    assert standby.request("GET", "whoami", user="ann:secret").body["name"] == "ann"


def test_changes_and_deletions_are_followed(upstream, standby):
    fill(upstream)
    # Where most is deleted, nothing is, before an operator has accepted it.
    declare(upstream, *(f"stays{number}" for number in range(20)))
    follow(standby, upstream, local_users=[])
    wait_for_state(standby, "syncing")
    upstream.put(f"vhosts/{in_path(VHOST)}", {"description": "changed", "tags": ""})
    upstream.put("users/ann", {"password": "other", "tags": "monitoring"})
    upstream.put("permissions/%2F/ann", {"configure": "", "write": "", "read": ""})
    upstream.put("parameters/federation-upstream/%2F/up", {"value": {"uri": "amqp://there"}})
    upstream.put("policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 6}})
    upstream.delete("operator-policies/%2F/o")
    upstream.delete("user-limits/ann/max-connections")
    upstream.delete("vhost-limits/%2F/max-queues")
    upstream.delete("topic-permissions/%2F/ann")
    upstream.delete("bindings/%2F/e/x/e/y/%23")
    upstream.delete("exchanges/%2F/y")
    # It cannot be changed, so it is declared again, with its bindings.
    upstream.delete("queues/%2F/q")
    declare(upstream, "q", arguments={"x-message-ttl": 5})
    upstream.post("bindings/%2F/e/x/q/q", {"routing_key": "a.*", "arguments": {"n": 1}})
    standby.wait_until(lambda: everything(standby) == everything(upstream), "all is followed")
    assert standby.get("queues/%2F/q")["arguments"] == {"x-message-ttl": 5}
    assert standby.request("GET", "whoami", user="ann:other").status == 200
    upstream.delete(f"vhosts/{in_path(VHOST)}")
    upstream.delete("users/ann")
    for path in FILLED:
        upstream.delete(path)
    standby.wait_until(lambda: everything(standby) == everything(upstream), "all is followed")


def test_objects_lost_on_the_standby_come_back(upstream, standby):
    declare(upstream, "q")
    follow(standby, upstream)
    standby.wait_until(lambda: has(standby, "queues", "q"), "it is followed")
    standby.delete("queues/%2F/q")
    standby.wait_until(lambda: has(standby, "queues", "q"), "it is there again")


def test_a_queue_with_messages_or_consumers_is_kept(upstream, standby):
    declare(upstream, "full", "used", "empty")
    follow(standby, upstream)
    standby.wait_until(lambda: has(standby, "queues", "used"), "they are followed")
    assert standby.publish("/", "full", "precious")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", standby.port)) as consuming:
        consuming.channel().basic_consume("used", print)
        for queue in ("full", "used", "empty"):
            upstream.delete(f"queues/%2F/{queue}")
        standby.wait_until(lambda: status(standby)["kept_count"] == 2, "two are kept")
        kept = {one["name"]: one["reason"] for one in status(standby)["kept"]}
        assert kept == {"full": "has messages", "used": "has consumers"}
        standby.wait_until(lambda: not has(standby, "queues", "empty"), "the other is deleted")
        standby.delete("queues/%2F/full/contents")
    standby.wait_until(lambda: not has(standby, "queues", "full"), "it is deleted when it is empty")
    wait_until_followed(standby)
    assert status(standby)["kept"] == []


def test_a_vhost_is_kept_while_there_is_a_message_in_it(upstream, standby):
    upstream.put("vhosts/v")
    upstream.put("permissions/v/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    declare(upstream, "q", vhost="v")
    follow(standby, upstream, local_users=[])
    standby.wait_until(lambda: has(standby, "queues", "q", "v"), "it is followed")
    assert standby.publish("v", "q", "precious")
    upstream.delete("vhosts/v")
    standby.wait_until(lambda: status(standby)["kept_count"] == 2, "both are kept")
    assert {one["kind"] for one in status(standby)["kept"]} == {"queues", "vhosts"}
    standby.delete("queues/v/q/contents")
    standby.wait_until(lambda: standby.request("GET", "vhosts/v").status == 404, "it is deleted")


def test_an_emptied_upstream_is_held_until_it_is_accepted(upstream, standby):
    declare(upstream, *(f"q{number}" for number in range(20)))
    follow(standby, upstream)
    standby.wait_until(lambda: has(standby, "queues", "q19"), "all are followed")
    # It must not see that some have gone before all have.
    standby.process.send_signal(signal.SIGSTOP)
    for number in range(20):
        upstream.delete(f"queues/%2F/q{number}")
    standby.process.send_signal(signal.SIGCONT)
    shown = wait_for_state(standby, "held")
    assert "lacks" in shown["reason"]
    assert has(standby, "queues", "q19")
    wait_until_no_queue_is_left_upstream(upstream)
    held = status(standby)["syncs"]["held"]
    standby.wait_until(lambda: status(standby)["syncs"]["held"] > held + 1, "it is still held")
    assert has(standby, "queues", "q19")
    Ctl(standby)("accept_schema_replication")
    standby.wait_until(lambda: not has(standby, "queues", "q19"), "it is accepted")
    wait_for_state(standby, "syncing")
    answer = standby.post(f"{ROUTE}/accept")
    assert (answer.status, answer.body["error"]) == (409, "conflict")


def wait_until_no_queue_is_left_upstream(upstream):
    upstream.wait_until(lambda: upstream.get("queues") == [], "it has no queues")


def test_definitions_have_an_etag(upstream):
    declare(upstream, "q")
    first = upstream.fetch("definitions")
    tag = first[2]["ETag"]
    asked = {"If-None-Match": tag}
    status_code, content, headers = upstream.fetch("definitions", headers=asked)
    assert (status_code, content, headers["ETag"]) == (304, b"", tag)
    declare(upstream, "q2")
    status_code, content, headers = upstream.fetch("definitions", headers=asked)
    assert (status_code, headers["ETag"] != tag) == (200, True)
    assert b'"q2"' in content
    upstream.delete("queues/%2F/q2")
    assert upstream.fetch("definitions", headers=asked)[0] == 304


# Faults of the upstream


def test_it_goes_on_when_the_upstream_is_back(upstream, standby):
    declare(upstream, "q")
    follow(standby, upstream)
    wait_for_state(standby, "syncing")
    upstream.stop()
    shown = wait_for_state(standby, "failed")
    assert "cannot be reached: Connect" in shown["reason"]
    assert has(standby, "queues", "q")
    upstream.start()
    declare(upstream, "q2")
    standby.wait_until(lambda: has(standby, "queues", "q2"), "it follows again")
    assert "the definitions of the upstream are not followed:" in standby.log


def test_a_standby_that_was_killed_amid_a_sync_goes_on(upstream, standby):
    count = 1000
    declare(upstream, *(f"q{number}" for number in range(count)))
    follow(standby, upstream)
    standby.wait_until(lambda: len(standby.get("queues")) > 0, "a sync is under way")
    standby.process.send_signal(signal.SIGKILL)
    standby.process.wait(PATIENCE_SECONDS)
    standby.start()
    standby.wait_until(lambda: len(standby.get("queues")) == count, "all are followed")
    wait_for_state(standby, "syncing")
    # The fixture would delete them one by one.
    for node in (standby, upstream):
        node.delete(ROUTE)
        node.delete("vhosts/%2F")
        node.put("vhosts/%2F")
        node.put("permissions/%2F/guest", {"configure": ".*", "write": ".*", "read": ".*"})


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"password": "wrong"}, "refuses user 'guest': check the password"),
        ({"username": "watcher", "password": "w"}, "must have the tag administrator"),
        ({"endpoints": ["127.0.0.1:AMQP"]}, "does not speak HTTP: give the port of management"),
        ({"endpoints": ["http://127.0.0.1:METRICS"]}, "is not the management of RabbitMQ or"),
        ({"endpoints": ["https://127.0.0.1:HTTP"]}, "does not speak TLS as expected"),
        ({"endpoints": ["http://no-such-host.invalid"]}, "cannot be reached"),
        ({"endpoints": ["https://127.0.0.1:HTTP"], "cacertfile": "/nowhere"}, "no authorities"),
    ],
)  # fmt: skip
def test_why_it_does_not_follow_is_told(upstream, standby, setting, reason):
    upstream.put("users/watcher", {"password": "w", "tags": "monitoring"})
    ports = {"AMQP": upstream.port, "METRICS": upstream.metrics_port, "HTTP": upstream.http_port}
    for name, port in ports.items():
        if "endpoints" in setting:
            setting["endpoints"] = [one.replace(name, str(port)) for one in setting["endpoints"]]
    follow(standby, upstream, **setting)
    shown = wait_for_state(standby, "failed")
    assert reason in shown["reason"]
    assert "password" not in shown["upstream"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"endpoints": []}, "endpoints must be a list of addresses"),
        ({"endpoints": ["amqp://host"]}, "'amqp://host' is not an endpoint"),
        ({"endpoints": ["http://u:p@host"]}, "may not contain a user"),
        ({"interval": 0}, "interval must be a number of seconds"),
        ({"kinds": ["messages"]}, "kinds: messages cannot be followed"),
        ({"vhosts": "/"}, "vhosts must be a list of texts"),
        ({"verify": "never"}, "verify must be verify_peer or verify_none"),
        ({"colour": 1}, "colour: no such key"),
        ({"username": ""}, "username must be a text that is not empty"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(standby, changes, reason):
    given = {"endpoints": ["far"], "username": "u", "password": "secret", **changes}
    answer = standby.put(ROUTE, given)
    assert answer.status == 400
    assert reason in answer.body["reason"]
    assert "secret" not in str(answer.body)


# What operators do


def test_a_promoted_standby_follows_no_more_also_after_a_restart(upstream, standby):
    declare(upstream, "q")
    follow(standby, upstream)
    wait_for_state(standby, "syncing")
    assert has(standby, "queues", "q")
    ctl = Ctl(standby)
    assert "Operating mode: downstream\nState: syncing" in ctl("schema_replication_status")
    ctl("promote_warm_standby")
    assert "Operating mode: upstream\nState: promoted" in ctl("schema_replication_status")
    for command in ("promote_warm_standby", "enable_schema_replication"):
        code, said = ctl.fails(command)
        assert (code, "was promoted already" in said) == (65, True)
    assert standby.put(ROUTE, SETTING).status == 409
    declare(upstream, "q2")
    standby.stop()
    standby.start()
    assert status(standby)["state"] == "promoted"
    assert status(standby)["syncs"]["complete"] == 0
    assert has(standby, "queues", "q")
    assert not has(standby, "queues", "q2")
    # The way back: it is a standby again only after the setting was deleted.
    ctl("clear_schema_replication")
    assert status(standby)["state"] == "off"
    follow(standby, upstream)
    standby.wait_until(lambda: has(standby, "queues", "q2"), "it follows again")


SETTING = {"endpoints": ["far"], "username": "u", "password": "p"}


def test_it_is_disabled_and_enabled(upstream, standby):
    follow(standby, upstream)
    wait_for_state(standby, "syncing")
    ctl = Ctl(standby)
    ctl("disable_schema_replication")
    shown = status(standby)
    assert (shown["state"], shown["operating_mode"]) == ("disabled", "downstream")
    assert standby.post(f"{ROUTE}/restart").status == 409
    declare(upstream, "q")
    standby.stop()
    standby.start()
    assert status(standby)["state"] == "disabled"
    assert not has(standby, "queues", "q")
    ctl("enable_schema_replication")
    standby.wait_until(lambda: has(standby, "queues", "q"), "it follows")


def test_a_restart_syncs_now(upstream, standby):
    follow(standby, upstream, interval=3600)
    wait_for_state(standby, "syncing")
    declare(upstream, "q")
    Ctl(standby)("restart_schema_replication")
    standby.wait_until(lambda: has(standby, "queues", "q"), "it has synced")


def test_the_setting_is_given_as_rabbitmq_takes_it(upstream, standby):
    declare(upstream, "q")
    ctl = Ctl(standby)
    code, said = ctl.fails("promote_warm_standby")
    assert (code, "follows no upstream" in said) == (65, True)
    setting = {"endpoints": [f"127.0.0.1:{upstream.http_port}"], "username": "guest",
               "password": "guest"}  # fmt: skip
    ctl("set_schema_replication_upstream_endpoints", json.dumps(setting))
    standby.wait_until(lambda: has(standby, "queues", "q"), "it follows")
    shown = json.loads(ctl("schema_replication_status", "--formatter", "json"))
    assert shown["upstream"]["interval"] == 30
    assert shown["upstream"]["local_users"] == []
    code, said = ctl.fails("set_schema_replication_upstream_endpoints", '{"endpoints": 1}')
    assert code == 65


def test_only_administrators_change_it_and_monitors_see_it(standby):
    standby.put("users/watcher", {"password": "w", "tags": "monitoring"})
    standby.put("users/other", {"password": "o", "tags": "management"})
    assert standby.request("GET", ROUTE, user="watcher:w").status == 200
    assert standby.request("GET", ROUTE, user="other:o").status == 401
    for action in ("promote", "disable", "accept"):
        assert standby.post(f"{ROUTE}/{action}", user="watcher:w").status == 401
    assert standby.put(ROUTE, SETTING, user="watcher:w").status == 401
    assert standby.delete(ROUTE, user="watcher:w").status == 401


# What runs on a standby


def test_shovels_of_the_upstream_begin_with_the_promotion(upstream, standby):
    declare(upstream, "from", "to")
    shovel = {"src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to"}
    upstream.put("parameters/shovel/%2F/move", {"value": shovel})
    standby.put("vhosts/local")
    standby.put("permissions/local/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    declare(standby, "from", "to", vhost="local")
    local = {**shovel, "src-uri": "amqp:///local", "dest-uri": "amqp:///local"}
    standby.put("parameters/shovel/local/own", {"value": local})
    follow(standby, upstream, vhosts=["/"])
    wait_for_state(standby, "syncing")
    assert has(standby, "parameters/shovel", "move")
    standby.publish("/", "from", "stays")
    running = {(one["name"], one["state"]) for one in standby.get("shovels")}
    standby.wait_until(lambda: ("own", "running") in shovels(standby), f"it runs: {running}")
    assert "move" not in {name for name, _ in shovels(standby)}
    assert standby.get("queues/%2F/from")["name"] == "from"
    standby.post(f"{ROUTE}/promote")
    standby.wait_until(lambda: ("move", "running") in shovels(standby), "it runs")


def shovels(node):
    return {(one["name"], one["state"]) for one in node.get("shovels")}


def ids_of(*nodes):
    """What tells the clusters of nodes from others."""
    return [one.get("global-parameters/internal_cluster_id")["value"] for one in nodes]


class TestCircles:
    """Clusters that follow each other would each delete what is new at the others."""

    def wait_until_refused(self, *nodes):
        """Wait until each has found out, and has tried once more since."""
        for node in nodes:
            assert "follows this cluster, directly" in wait_for_state(node, "failed")["reason"]
        failed = {node: status(node)["syncs"]["failed"] for node in nodes}
        for node, count in failed.items():
            node.wait_until(
                lambda node=node, count=count: status(node)["syncs"]["failed"] > count, "it retries"
            )

    def test_of_two_change_nothing_until_one_is_promoted(self, nodes):
        old, new = nodes
        follow(old, new)
        wait_for_state(old, "syncing")
        follow(new, old)
        self.wait_until_refused(old, new)
        self.wait_until_refused(old, new)
        assert status(old)["follows"] == ids_of(new, old), "one round of the circle is told"
        declare(old, "old")
        declare(new, "new")
        self.wait_until_refused(old, new)
        assert (has(old, "queues", "old"), has(old, "queues", "new")) == (True, False)
        assert (has(new, "queues", "new"), has(new, "queues", "old")) == (True, False)
        assert new.post(f"{ROUTE}/promote").status == 204
        wait_for_state(old, "syncing")
        assert (has(old, "queues", "old"), has(old, "queues", "new")) == (False, True)

    def test_of_three_are_found(self, nodes, tmp_path):
        first, second = nodes
        third = ServedNode(tmp_path, name="third@localhost")
        try:
            for node, upstream in ((first, second), (second, third), (third, first)):
                follow(node, upstream)
            self.wait_until_refused(first, second, third)
        finally:
            third.stop()

    def test_a_chain_is_none(self, nodes, tmp_path):
        middle, last = nodes
        first = ServedNode(tmp_path, name="first@localhost")
        try:
            follow(middle, first)
            follow(last, middle)
            declare(first, "q")
            last.wait_until(lambda: has(last, "queues", "q"), "it comes along the chain")
            ids = ids_of(middle, first)
            last.wait_until(lambda: status(last)["follows"] == ids, "it knows whom it follows")
        finally:
            first.stop()
