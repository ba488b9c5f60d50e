"""Static shovels on the page of shovels: they are shown, and nothing can be done with them."""

import pytest

from tests.browser.browser import Browser
from tests.mgmt.served_node import ServedNode

FILE = """[{rabbitmq_shovel, [{shovels, [{fixed, [
    {source, [{uris, ["amqp://"]}, {declarations, [{'queue.declare', [{queue, <<"from">>}]}]},
              {queue, <<"from">>}]},
    {destination, [{uris, ["amqp://"]}, {publish_fields, [{exchange, <<"amq.fanout">>}]}]}]}]}]}].
"""


@pytest.fixture
def static(tmp_path):
    (tmp_path / "advanced.config").write_text(FILE)
    served = ServedNode(tmp_path)
    yield served
    served.stop()


def test_a_static_shovel_has_no_buttons(static, driver):
    driver.set_window_size(1280, 900)
    browser = Browser(driver, static)
    browser.begin()
    browser.go("admin", "shovels")
    shovels = browser.panel("All shovels")
    for text in ("fixed", "(static)", "running", "queue from", "exchange amq.fanout"):
        browser.see_in(shovels, text)
    labels = [
        one.get_attribute("aria-label") for one in shovels.find_elements("tag name", "button")
    ]
    assert not [label for label in labels if "fixed" in (label or "")]
    assert browser.errors() == []
