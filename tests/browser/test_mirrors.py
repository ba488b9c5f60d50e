"""The pages of a mirrored queue: how many mirrors it has, its ring, and synchronising them."""

import pytest
from selenium.webdriver.common.by import By

from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import form_managed

QUEUE = "queues/%2F/orders"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Three nodes with a queue whose mirrors have none of its messages."""
    nodes = form_managed(tmp_path_factory.mktemp("cluster"), "a", "b", "c")
    declare(nodes[0], "orders")
    for number in range(5):
        nodes[0].publish("/", "orders", str(number), {"delivery_mode": 2})
    nodes[0].ctl("set_policy", "ha", "^orders$", '{"ha-mode": "all"}')
    nodes[0].wait_to_see(QUEUE, lambda queue: len(queue.get("slave_nodes", ())) == 2)
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def opened_node(nodes):
    return nodes[1]


def boxes(panel):
    """What the drawing of the ring says of each member."""
    found = panel.find_elements(By.CSS_SELECTOR, ".ring .member")
    return [one.get_attribute("aria-label") for one in found]


def test_the_ring_is_drawn_and_its_mirrors_are_synchronised(browser, nodes):
    a, b, c = nodes
    browser.go("queues")
    browser.see(f"Unsynchronised mirrors: {b.name}, {c.name}")
    browser.follow("orders")
    panel = browser.panel("Mirrors")
    browser.see_in(panel, "unsynchronised mirror")
    assert boxes(panel)[0] == f"{a.name}: leader, 0 in flight"
    assert len(panel.find_elements(By.CSS_SELECTOR, ".ring .edge")) == len(nodes)
    browser.press("Synchronise", panel)
    browser.see("Synchronising has begun")
    browser.wait(
        lambda: (
            sorted(boxes(browser.panel("Mirrors"))[1:])
            == [f"{node.name}: mirror, 0 in flight" for node in (b, c)]
        ),
        "both mirrors are synchronised",
    )
    browser.go("queues")
    browser.see(f"Synchronised mirrors: {b.name}, {c.name}")


def test_a_queue_without_mirrors_has_no_panel_for_them(browser, nodes):
    declare(nodes[1], "alone")
    browser.go("queues", "/", "alone")
    browser.panel("Storage tiers")
    assert "Mirrors" not in [
        one.text for one in browser.driver.find_elements(By.CSS_SELECTOR, "h2")
    ]
