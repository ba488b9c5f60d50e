"""The pages of replicated queues and streams: their members, and which of them leads."""

import signal

import pytest

from tests.cluster.managed_nodes import form_managed

QUORUM = {"durable": True, "arguments": {"x-queue-type": "quorum"}}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("cluster"), "a", "b", "c")
    nodes[0].put("queues/%2F/orders", QUORUM)
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def opened_node(nodes):
    return nodes[1]


def test_replicas_of_a_stream_are_added_and_deleted(browser, nodes):
    a, b, c = nodes
    arguments = {"x-queue-type": "stream", "x-initial-cluster-size": 1}
    a.put("queues/%2F/log", {"durable": True, "arguments": arguments})
    a.publish("/", "log", "a message")
    browser.go("queues", "/", "log")
    panel = browser.panel("Replicas")
    browser.choose("Add a replica on node", b.name, panel)
    browser.press("Add replica", panel)
    browser.see(f"Replica on {b.name} added")
    browser.press(f"Make {b.name} the writer", panel)
    browser.see(f"{b.name} leads the stream")
    browser.press(f"Delete the replica on {a.name}", panel)
    browser.confirm("Delete")
    browser.see(f"Replica on {a.name} deleted")
    (member,) = a.get("queues/%2F/log")["raft"]["members"]
    assert (member["node"], member["committed_offset"]) == (b.name, 0)
    browser.choose("Add a replica on node", a.name, panel)
    # What was chosen stays when the page is refreshed.
    browser.choose("Add a replica on node", c.name, panel)
    browser.press("Add replica", panel)
    browser.see(f"Replica on {c.name} added")


def test_the_members_are_shown_and_another_one_leads(browser, nodes):
    a, b, c = nodes
    browser.go("queues")
    browser.see(f"Online members: {b.name}, {c.name}")
    browser.follow("orders")
    panel = browser.panel("Members")
    browser.see_in(panel, "leader")
    browser.see_in(panel, "nothing")
    browser.press("Make leader", panel)
    browser.see(f"{b.name} leads the queue")
    c.stop(signal.SIGKILL)
    browser.wait(
        lambda: "node does not run" in browser.panel("Members").text, "one member does not run"
    )
    a.stop(signal.SIGKILL)
    browser.wait(
        lambda: "Nobody leads this queue: a majority" in browser.panel("Members").text,
        "the reason is shown",
    )
    browser.go("queues", "/", "log")
    panel = browser.panel("Replicas")
    browser.see_in(panel, "Nobody leads this stream: a majority")
    browser.see_in(panel, "node does not run")
    browser.follow("Messages")
    browser.see("a message")
    for node in (a, c):
        node.start(waits=False)
    for node in (a, c):
        node.wait_for_log(" ready in")
