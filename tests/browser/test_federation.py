"""The pages of federation: adding and deleting upstreams and sets; what links do, and restarts."""

import pytest

from tests.ports import free_port


@pytest.fixture
def upstream(node, vhost):
    """A vhost of the same node, which is the upstream."""
    name = f"{vhost}-upstream"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


def federate(node, vhost):
    node.put(f"queues/{vhost}/fq", {"durable": True})
    policy = {"pattern": "^fq$", "definition": {"federation-upstream-set": "all"}}
    assert node.put(f"policies/{vhost}/federated", policy).status == 201


def test_an_upstream_is_added_seen_and_deleted(browser, node, vhost):
    browser.go("admin", "federation-upstreams")
    browser.see_title("Federation upstreams")
    panel = browser.panel("Add a new upstream")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "rome", panel)
    browser.type("URI", "amqp://anna:sesame@127.0.0.1:1 amqp://127.0.0.1:2/v", panel)
    browser.choose("Acknowledgements", "on-publish", panel)
    browser.type("Reconnect delay", "90", panel)
    browser.type("Exchange", "there", panel)
    browser.press("Add upstream", panel)
    browser.see("Upstream rome added")
    assert node.get(f"parameters/federation-upstream/{vhost}/rome")["value"] == {
        "uri": ["amqp://anna:sesame@127.0.0.1:1", "amqp://127.0.0.1:2/v"],
        "ack-mode": "on-publish", "trust-user-id": False, "reconnect-delay": 90,
        "exchange": "there",
    }  # fmt: skip
    upstreams = browser.panel("All upstreams")
    first, second = "amqp://anna:[redacted]@127.0.0.1:1", "amqp://127.0.0.1:2/v"
    for text in ("rome", first, second, "reconnect-delay: 90"):
        browser.see_in(upstreams, text)
    browser.see_not("sesame")
    browser.press("Delete upstream rome")
    browser.confirm("Delete")
    browser.see("Upstream deleted")
    assert node.get(f"parameters/federation-upstream/{vhost}") == []


def test_an_upstream_that_is_refused_is_told_why(browser, node, vhost):
    browser.go("admin", "federation-upstreams")
    panel = browser.panel("Add a new upstream")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "wrong", panel)
    browser.type("URI", "http://127.0.0.1", panel)
    browser.press("Add upstream", panel)
    browser.see('"http://127.0.0.1" not a valid URI')
    assert node.get(f"parameters/federation-upstream/{vhost}") == []


def test_a_set_of_upstreams_is_added_seen_and_deleted(browser, node, vhost):
    browser.go("admin", "federation-upstream-sets")
    browser.see_title("Federation upstream sets")
    panel = browser.panel("Add a new upstream set")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "cities", panel)
    browser.type("Upstreams", 'rome\nnew york {"exchange": "there", "max-hops": 2}\n', panel)
    browser.press("Add upstream set", panel)
    browser.see("Upstream set cities added")
    assert node.get(f"parameters/federation-upstream-set/{vhost}/cities")["value"] == [
        {"upstream": "rome"}, {"upstream": "new york", "exchange": "there", "max-hops": 2},
    ]  # fmt: skip
    sets = browser.panel("All upstream sets")
    for text in ("cities", "rome", 'new york {"exchange":"there","max-hops":2}'):
        browser.see_in(sets, text)
    browser.press("Delete upstream set cities")
    browser.confirm("Delete")
    browser.see("Upstream set deleted")
    assert node.get(f"parameters/federation-upstream-set/{vhost}") == []


@pytest.mark.parametrize(
    ("upstreams", "why"),
    [
        ('rome {"max-hops": "far"}', "max-hops"),
        ("rome {near}", "The settings of rome are not JSON"),
    ],
)
def test_a_set_that_is_refused_is_told_why(browser, node, vhost, upstreams, why):
    browser.go("admin", "federation-upstream-sets")
    panel = browser.panel("Add a new upstream set")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "wrong", panel)
    browser.type("Upstreams", upstreams, panel)
    browser.press("Add upstream set", panel)
    browser.see(why)
    assert node.get(f"parameters/federation-upstream-set/{vhost}") == []


def test_a_link_is_seen_and_restarted(browser, node, vhost, upstream):
    uri = f"amqp://127.0.0.1:{node.port}/{upstream}"
    node.put(f"parameters/federation-upstream/{vhost}/up", {"value": {"uri": uri, "queue": "far"}})
    federate(node, vhost)
    browser.go("admin", "federation")
    browser.see_title("Federation status")
    links = browser.panel("All links")
    for text in ("up queue far", uri, "queue fq", "running"):
        browser.see_in(links, text)
    (before,) = node.get(f"federation-links/{vhost}")
    browser.press("Restart the link of queue fq to up")
    browser.see("Link restarted")

    def connection():
        return [one.get("local_connection") for one in node.get(f"federation-links/{vhost}")]

    gone = [[before["local_connection"]], [None], []]
    node.wait_until(lambda: connection() not in gone, "it reconnects")


def test_it_says_why_a_link_does_not_run(browser, node, vhost):
    value = {"uri": f"amqp://anna:sesame@127.0.0.1:{free_port()}", "reconnect-delay": 3600}
    node.put(f"parameters/federation-upstream/{vhost}/broken", {"value": value})
    federate(node, vhost)
    browser.go("admin", "federation")
    links = browser.panel("All links")
    browser.see_in(links, "error")
    browser.see_in(links, "cannot be reached: Connection refused")
    browser.see_not("sesame")


def test_a_monitor_sees_links_and_cannot_restart_them(browser, node, vhost, upstream, add_user):
    uri = f"amqp://127.0.0.1:{node.port}/{upstream}"
    node.put(f"parameters/federation-upstream/{vhost}/up", {"value": {"uri": uri}})
    federate(node, vhost)
    add_user("watcher", "monitoring")
    browser.begin("watcher", "secret")
    browser.go("admin", "federation")
    links = browser.panel("All links")
    browser.see_in(links, "running")
    assert links.find_elements("xpath", ".//button[text()='Restart']") == []
