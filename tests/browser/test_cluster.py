"""The pages of one node show what all nodes of its cluster have, and which does not answer."""

import signal

import pytest

from tests.cluster.managed_nodes import form_managed


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("cluster"), "a", "b")
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def opened_node(nodes):
    return nodes[0]


def test_all_nodes_and_the_nodes_of_objects_are_shown(browser, nodes):
    for node in nodes:
        browser.see_in(browser.panel("Nodes"), node.name)
        browser.see_in(browser.panel("Ports and contexts"), node.name)
    with nodes[1].connect() as connection:
        connection.channel().queue_declare("far")
        for page in ("connections", "channels", "queues"):
            browser.go(page)
            browser.see(nodes[1].name)
        browser.follow(nodes[1].name)
        browser.see_title(f"Node {nodes[1].name}")
        browser.see(str(nodes[1].process.pid))


def test_a_queue_is_added_on_the_node_that_is_chosen(browser, nodes):
    browser.go("queues")
    panel = browser.panel("Add a new queue")
    browser.type("Name", "placed", panel)
    browser.choose("Node", nodes[1].name, panel)
    browser.press("Add queue", panel)
    browser.see("Queue placed added")
    assert nodes[0].get("queues/%2F/placed")["node"] == nodes[1].name


def test_a_node_that_does_not_answer_is_named_on_every_page(browser, nodes):
    nodes[1].process.send_signal(signal.SIGSTOP)
    try:
        browser.go("connections")
        browser.see(f"{nodes[1].name} does not answer: what it has is not shown")
        browser.go("")
        browser.see("This node does not answer")
        browser.follow(nodes[1].name)
        browser.see_title(f"Node {nodes[1].name}")
        browser.see("This node does not answer")
    finally:
        nodes[1].process.send_signal(signal.SIGCONT)
