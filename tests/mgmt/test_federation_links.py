"""Federation links as operators see and steer them: HTTP API, commands, metric."""

import json
import re
import socket
from urllib.parse import quote

import pytest

from tests.mgmt.ctl_command import Ctl
from tests.ports import free_port

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
LINKS = "federation-links"


@pytest.fixture
def upstream(node, vhost):
    """A vhost of the same node, which is the upstream."""
    name = f"{vhost}-upstream"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


def uri(node, vhost, user="guest:guest"):
    return f"amqp://{user}@127.0.0.1:{node.port}/{quote(vhost, safe='')}"


def nowhere():
    return f"amqp://guest:secret@127.0.0.1:{free_port()}"


def federate(node, vhost, name="up", **value):
    """Set an upstream, which exchange `fx` and queue `fq` have by a policy."""
    value = {key.replace("_", "-"): one for key, one in value.items()}
    path = f"parameters/federation-upstream/{quoted(vhost)}/{quoted(name)}"
    answer = node.put(path, {"value": value})
    assert answer.status in (201, 204), answer
    policy = {"pattern": "^f[xq]$", "definition": {"federation-upstream-set": "all"}}
    assert node.put(f"policies/{quoted(vhost)}/federated", policy).status in (201, 204)


def declare(node, vhost, *, exchange=True, queue=False):
    if exchange:
        assert node.put(f"exchanges/{quoted(vhost)}/fx", {"type": "topic"}).status == 201
    if queue:
        assert node.put(f"queues/{quoted(vhost)}/fq", {"durable": True}).status == 201


def quoted(name):
    return quote(name, safe="")


def links(node, vhost, *more):
    return node.get("/".join((LINKS, quoted(vhost), *more)))


def statuses(node, vhost):
    return sorted(one["status"] for one in links(node, vhost))


def wait_for(node, vhost, *wanted):
    node.wait_until(lambda: statuses(node, vhost) == sorted(wanted), f"links are {wanted}")
    return links(node, vhost)


def restart(node, link):
    vhost, link_id, runner = (quoted(link[key]) for key in ("vhost", "id", "node"))
    return node.delete(f"{LINKS}/vhost/{vhost}/{link_id}/{runner}/restart")


def test_a_link_of_an_exchange_that_runs(node, vhost, upstream):
    declare(node, vhost)
    federate(node, vhost, uri=uri(node, upstream), exchange="there")
    (link,) = wait_for(node, vhost, "running")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d{1,2}:\d\d:\d\d", link.pop("timestamp"))
    assert re.fullmatch("[0-9a-f]{8}", link.pop("id"))
    channel, connection = link.pop("local_channel"), link.pop("local_connection")
    assert link == {
        "node": node.name, "type": "exchange", "exchange": "fx", "upstream_exchange": "there",
        "vhost": vhost, "upstream": "up", "status": "running",
        "uri": f"amqp://127.0.0.1:{node.port}/{upstream}",
    }  # fmt: skip
    assert channel["connection_details"]["name"] == connection
    assert (channel["confirm"], channel["vhost"], channel["user"]) == (True, vhost, "none")
    shown = node.get(f"connections/{quoted(connection)}")
    assert shown["user_provided_name"] == "Federation link (upstream: up, policy: federated)"


def test_the_channel_of_a_link_counts_its_messages(node, vhost, upstream, channel):
    declare(node, vhost)
    channel.queue_declare("q")
    channel.queue_bind("q", "fx", "#")
    federate(node, vhost, uri=uri(node, upstream), prefetch_count=5)
    wait_for(node, vhost, "running")
    message = {"routing_key": "k", "payload": "m", "payload_encoding": "string", "properties": {}}
    node.wait_until(
        lambda: node.post(f"exchanges/{upstream}/fx/publish", message).body["routed"], "it is bound"
    )

    def confirmed():
        (link,) = links(node, vhost)
        return link["local_channel"].get("message_stats", {}).get("confirm")

    node.wait_until(lambda: confirmed() == 1, "it is counted")


def test_each_connection_of_links_has_its_own_name(node, vhost, upstream):
    declare(node, vhost, queue=True)
    federate(node, vhost, uri=uri(node, upstream))
    found = wait_for(node, vhost, "running", "running")
    assert len({one["local_connection"] for one in found}) == 2
    assert len({one["local_channel"]["name"] for one in found}) == 2


def test_a_link_of_a_queue_that_has_failed_is_listed_as_down(node, vhost, upstream):
    declare(node, vhost, queue=True)
    federate(node, vhost, "bad", uri=nowhere(), queue="there", reconnect_delay=3600)
    federate(node, vhost, "good", uri=uri(node, upstream))
    wait_for(node, vhost, "error", "error", "running", "running")
    (exchange, queue) = links(node, vhost, "state", "down")
    assert (exchange["exchange"], queue["queue"]) == ("fx", "fq")
    assert (queue["upstream_queue"], queue["consumer_tag"]) == ("there", "federation-link-bad")
    assert "cannot be reached: Connection refused" in queue["error"]
    assert "secret" not in json.dumps([exchange, queue])
    assert {"local_connection", "local_channel"}.isdisjoint(queue)
    down = [one for one in node.get(f"{LINKS}/state/down") if one["vhost"] == vhost]
    assert down == [exchange, queue]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda node, vhost: {"uri": uri(node, vhost, "guest:wrong")}, "ACCESS_REFUSED"),
        (lambda node, vhost: {"uri": uri(node, "nowhere")}, "vhost nowhere not found"),
        (lambda node, vhost: {"uri": "amqp://nosuch.invalid"}, "amqp://nosuch.invalid"),
        (lambda node, vhost: {"uri": uri(node, vhost), "queue": "amq.x"}, "amq.*"),
        (lambda node, vhost: {"uri": f"amqp://127.0.0.1:{node.http_port}"}, "does not speak AMQP"),
    ],
)
def test_why_a_link_does_not_run(node, vhost, upstream, value, reason):
    declare(node, vhost, exchange=False, queue=True)
    federate(node, vhost, reconnect_delay=3600, **value(node, upstream))
    (link,) = wait_for(node, vhost, "error")
    assert reason in link["error"]


def test_a_link_is_starting_while_its_upstream_does_not_answer(node, vhost):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        declare(node, vhost)
        federate(node, vhost, uri=f"amqp://127.0.0.1:{port}")
        with silent.accept()[0]:
            (link,) = wait_for(node, vhost, "starting")
            assert link["uri"] == f"amqp://127.0.0.1:{port}"
            assert "error" not in link
            assert links(node, vhost, "state", "down") == []


def test_a_restarted_link_reconnects(node, vhost, upstream):
    declare(node, vhost)
    federate(node, vhost, uri=uri(node, upstream))
    (before,) = wait_for(node, vhost, "running")
    assert restart(node, before).status == 204

    def is_new():
        (link,) = links(node, vhost) or [before]
        return (
            link.get("local_connection", before["local_connection"]) != (before["local_connection"])
        )

    node.wait_until(is_new, "it has another connection")
    (after,) = links(node, vhost)
    assert after["id"] == before["id"]


def test_a_link_that_waits_is_restarted_at_once(node, vhost, upstream):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        declare(node, vhost)
        federate(node, vhost, uri=f"amqp://127.0.0.1:{port}", reconnect_delay=3600)
        server.accept()[0].close()
        (link,) = wait_for(node, vhost, "error")
        restart(node, link)
        server.accept()[0].close()


def test_names_with_slashes_and_of_any_script(node, upstream):
    vhost = "fü/der ation%"
    assert node.put(f"vhosts/{quoted(vhost)}").status == 201
    try:
        declare(node, vhost)
        federate(node, vhost, "nach/Süden %2F", uri=uri(node, upstream), exchange="Ä/д")
        (link,) = wait_for(node, vhost, "running")
        named = link["vhost"], link["upstream"], link["upstream_exchange"]
        assert named == (vhost, "nach/Süden %2F", "Ä/д")
        assert restart(node, link).status == 204
        wait_for(node, vhost, "running")
        ctl = Ctl(node)
        rows = json.loads(ctl("federation_status", "--formatter", "json"))
        assert [row["upstream"] for row in rows if row["vhost"] == vhost] == ["nach/Süden %2F"]
        ctl("restart_federation_link", link["id"])
        wait_for(node, vhost, "running")
    finally:
        node.delete(f"vhosts/{quoted(vhost)}")


@pytest.fixture
def link(node, vhost, upstream):
    """A link that runs."""
    declare(node, vhost)
    federate(node, vhost, uri=uri(node, upstream))
    return wait_for(node, vhost, "running")[0]


@pytest.fixture
def user(node, vhost):
    """Makes a user with these tags, who has access to the vhost or not; returns its login."""
    made = []

    def make(tags, *, has_access=True):
        name = f"{vhost}-{len(made)}"
        made.append(name)
        node.put(f"users/{name}", {"password": "secret", "tags": tags})
        if has_access:
            node.put(f"permissions/{vhost}/{name}", EVERYTHING)
        return f"{name}:secret"

    yield make
    for name in made:
        node.delete(f"users/{name}")


def test_a_monitor_sees_the_links_of_its_vhosts(node, link, user):
    with_access, without = user("monitoring"), user("monitoring", has_access=False)
    seen = node.request("GET", LINKS, user=with_access).body
    assert [one["id"] for one in seen] == [link["id"]]
    for path in (LINKS, f"{LINKS}/{link['vhost']}"):
        assert node.request("GET", path, user=without).body == []


@pytest.mark.parametrize(
    ("tags", "has_access", "status"),
    [
        ("policymaker", True, 204),
        ("policymaker", False, 401),
        ("monitoring", True, 401),
        ("administrator", False, 204),
    ],
)
def test_users_that_may_set_policies_in_a_vhost_may_restart_its_links(
    node, link, user, tags, has_access, status
):
    path = f"{LINKS}/vhost/{link['vhost']}/{link['id']}/{link['node']}/restart"
    who = user(tags, has_access=has_access)
    assert node.request("DELETE", path, user=who).status == status


def test_a_restart_is_in_the_audit_log(node, link):
    restart(node, link)
    (line,) = node.acts(name=link["id"])
    assert line["action"] == "federation.link.restarted"
    assert line["text"] == (
        f"Restarting federation link '{link['id']}' of exchange 'fx' to upstream 'up' "
        f"in vhost '{link['vhost']}'"
    )


def test_lists_are_in_pages_and_sorted(node, vhost):
    declare(node, vhost, queue=True)
    for name in ("a", "b"):
        federate(node, vhost, name, uri=nowhere(), reconnect_delay=3600)
    wait_for(node, vhost, *["error"] * 4)
    found = node.get(f"{LINKS}/{vhost}?sort=upstream&columns=upstream,type")
    assert [one["upstream"] for one in found] == ["a", "a", "b", "b"]
    assert found[0].keys() == {"upstream", "type"}
    page = node.get(f"{LINKS}/{vhost}?page=1&page_size=3&name=fq")
    assert (page["total_count"], page["filtered_count"]) == (4, 2)


def test_metrics_count_the_links_of_each_status(node, vhost, upstream):
    def count(status):
        line = rf'^rabbitmq_federation_links{{status="{status}"}} (\d+)$'
        return sum(map(int, re.findall(line, node.metrics(), re.MULTILINE)))

    node.wait_until(lambda: node.get(LINKS) == [], "those of other tests are gone")
    declare(node, vhost)
    federate(node, vhost, "good", uri=uri(node, upstream))
    federate(node, vhost, "bad", uri=nowhere(), reconnect_delay=3600)
    node.wait_until(lambda: count("running") == 1, "one runs")
    node.wait_until(lambda: count("error") == 1, "one has failed")


def test_commands(node, vhost, upstream):
    ctl = Ctl(node)
    declare(node, vhost)
    federate(node, vhost, "good", uri=uri(node, upstream))
    federate(node, vhost, "bad", uri=nowhere(), reconnect_delay=3600)
    wait_for(node, vhost, "error", "running")

    def rows(*options):
        listed = json.loads(ctl("federation_status", "--formatter", "json", *options))
        return {row["upstream"]: row for row in listed if row["vhost"] == vhost}

    assert rows().keys() == {"good", "bad"}
    (bad,) = rows("--only-down").values()
    assert (bad["upstream"], bad["status"], bad["queue"]) == ("bad", "error", "")
    assert "Connection refused" in bad["error"]
    ctl("restart_federation_link", rows()["good"]["id"])
    code, said = ctl.fails("restart_federation_link", "00000000")
    assert (code, said) == (69, "Error:\nLink with the given ID was not found\n")
    assert ctl.fails("restart_federation_link")[0] == 64
