"""Every page is opened, and what can be done on it is done, as a person would do it."""

import json

import pika
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from mgmt.ctl.client import Client

PAGES = (
    ("",), ("connections",), ("channels",), ("exchanges",), ("queues",), ("graph",), ("admin",),
    ("admin", "vhosts"), ("admin", "policies"), ("admin", "operator-policies"),
    ("admin", "limits"), ("admin", "features"), ("admin", "audit"), ("exchanges", "/", "amq.topic"),
)  # fmt: skip


@pytest.fixture
def client(node, vhost):
    """A connection with a channel and a consumer, for the pages to show."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, vhost))
    channel = connection.channel()
    channel.queue_declare("watched")
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("watched", lambda *_: None, consumer_tag="watcher")
    yield connection
    if connection.is_open:
        connection.close()


def test_a_wrong_password_is_told(browser):
    browser.press("Log out")
    browser.type("User name", "guest")
    browser.type("Password", "wrong")
    browser.press("Log in")
    browser.see("Login failed")


def test_the_overview_shows_the_node(browser, node):
    for text in ("Totals", "Queued messages", "Message rates", node.name, "http/prometheus"):
        browser.see(text)


def test_definitions_are_reviewed_before_they_are_imported(browser, node, vhost, tmp_path):
    path = tmp_path / "definitions.json"
    queue = {"name": "imported", "vhost": vhost, "durable": True, "auto_delete": False,
             "arguments": {}}  # fmt: skip
    path.write_text(json.dumps({"queues": [queue]}))
    browser.control("File").send_keys(str(path))
    browser.press("Show what would change")
    browser.see("+ queue imported")
    assert node.request("GET", f"queues/{vhost}/imported").status == 404
    browser.check("Import these definitions")
    browser.press("Import")
    browser.see("Definitions imported")
    assert node.get(f"queues/{vhost}/imported")["durable"]


def test_connections_and_channels_are_shown_and_closed(browser, node, client):
    browser.follow("Connections")
    browser.see("127.0.0.1")
    name = node.get("connections")[0]["name"]
    browser.follow(name)
    browser.see_title(f"Connection {name}")
    browser.see("Pika Python Client Library")
    browser.follow(f"{name} (1)")
    browser.see("watcher")
    browser.go("connections", name)
    browser.press("Close the connection")
    browser.press("Close", inside=browser.dialog())
    browser.see("Connection closed")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="management pages"):
        client.process_data_events(2)


def test_an_exchange_is_made_bound_published_to_and_deleted(browser, node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True})
    browser.follow("Exchanges")
    panel = browser.panel("Add an exchange")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "events", panel)
    browser.choose("Type", "topic", panel)
    browser.press("Add exchange", panel)
    browser.see("Exchange events added")
    browser.go("exchanges", vhost, "events")
    panel = browser.panel("Bind to this exchange")
    browser.type("Name", "q", panel)
    browser.type("Routing key", "a.#", panel)
    browser.press("Bind", panel)
    browser.see("Bound")
    panel = browser.panel("Publish a message")
    browser.type("Routing key", "a.b", panel)
    browser.type("Payload", "hello", panel)
    browser.press("Publish", panel)
    browser.see("Published")
    assert node.get(f"queues/{vhost}/q")["messages"] == 1
    browser.type("Routing key", "nobody", panel)
    browser.press("Publish", panel)
    browser.see("no queue got the message")
    browser.press("Delete the exchange")
    browser.press("Delete", inside=browser.dialog())
    browser.see_title("Exchanges")
    assert node.request("GET", f"exchanges/{vhost}/events").status == 404


def test_a_queue_is_asked_about_made_used_and_deleted(browser, node, vhost):
    browser.follow("Queues")
    panel = browser.panel("Add a queue")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "orders", panel)
    browser.type("Arguments", '{"x-max-length": 10}', panel)
    browser.press("Ask first", panel)
    browser.see("A new queue would be made.")
    browser.press("Add queue", panel)
    browser.see("Queue orders added")
    browser.type("Name", "orders", panel)
    browser.type("Arguments", "{}", panel)
    browser.press("Ask first", panel)
    browser.see("x-max-length: asked for null, is 10")
    browser.go("queues", vhost, "orders")
    panel = browser.panel("Publish to this queue")
    browser.type("Payload", "first", panel)
    browser.press("Publish", panel)
    browser.see("Published")
    panel = browser.panel("Get messages")
    browser.press("Get", panel)
    browser.wait(lambda: "first" in panel.text, "the message")
    browser.press("Purge")
    browser.press("Purge", inside=browser.dialog())
    browser.see("Purged")
    assert node.get(f"queues/{vhost}/orders")["messages"] == 0
    browser.press("Delete the queue")
    browser.press("Delete", inside=browser.dialog())
    browser.see_title("Queues")
    assert node.request("GET", f"queues/{vhost}/orders").status == 404


@pytest.fixture
def dead_letters(node, vhost):
    """Two messages that were rejected."""
    node.put(f"queues/{vhost}/dead", {"durable": True})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    node.put(f"queues/{vhost}/work", {"durable": True, "arguments": arguments})
    for number in range(2):
        node.publish(vhost, "work", f"job {number}", {"headers": {"number": number}})
    reject = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(node.post(f"queues/{vhost}/work/get", reject).body) == 2
    node.wait_until(lambda: node.get(f"queues/{vhost}/dead")["messages"] == 2, "they are dead")


def test_dead_letters_are_found_edited_and_retried(browser, node, vhost, dead_letters):
    browser.go("queues", vhost, "dead")
    panel = browser.panel("Messages and dead letters")
    browser.type("Header", "number:1", panel)
    browser.press("Look", panel)
    browser.wait(lambda: "job 1" in panel.text and "job 0" not in panel.text, "one message")
    assert "rejected in work" in panel.text
    browser.press("Edit and retry", panel)
    browser.type("Payload", "mended", browser.dialog())
    browser.press("Retry with these changes", browser.dialog())
    node.wait_until(lambda: node.get(f"queues/{vhost}/work")["messages"] == 1, "it is back")
    peeked = node.get(f"queues/{vhost}/work/messages")["messages"]
    assert [message["payload"] for message in peeked] == ["mended"]
    browser.go("admin", "audit")
    browser.see("retry")


def test_users_permissions_and_vhosts(browser, node, vhost):
    browser.go("admin")
    panel = browser.panel("Add or change a user")
    browser.type("Name", "anna", panel)
    browser.type("Password", "secret", panel)
    browser.type("Tags", "monitoring", panel)
    browser.press("Save user", panel)
    browser.see("User anna saved")
    browser.follow("anna")
    panel = browser.panel("Permissions")
    browser.choose("Virtual host", vhost, panel)
    browser.press("Set permissions", panel)
    browser.see("Permissions set")
    assert node.get(f"permissions/{vhost}/anna")["read"] == ".*"
    assert node.get("whoami", user="anna:secret")["tags"] == ["monitoring"]
    browser.go("admin")
    browser.press("Delete user anna")
    browser.press("Delete", inside=browser.dialog())
    browser.see("User deleted")
    assert node.request("GET", "users/anna").status == 404


def test_policies_and_limits(browser, node, vhost):
    browser.go("admin", "policies")
    panel = browser.panel("Add or change one of the policies")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "short", panel)
    browser.type("Pattern", "^q", panel)
    browser.type("Definition", '{"bogus": 1}', panel)
    browser.press("Save policy", panel)
    browser.see("not recognised policy settings")
    browser.type("Definition", '{"max-length": 5}', panel)
    browser.press("Save policy", panel)
    browser.see("Policy short saved")
    assert node.get(f"policies/{vhost}/short")["definition"] == {"max-length": 5}
    browser.go("admin", "limits")
    panel = browser.panel("Virtual hosts")
    browser.choose("Virtual host", vhost, panel)
    browser.choose("Limit", "max-queues", panel)
    browser.type("Value", "7", panel)
    browser.press("Set limit", panel)
    browser.see("Limit set")
    assert node.get(f"vhost-limits/{vhost}") == [{"vhost": vhost, "value": {"max-queues": 7}}]


def test_bindings_are_drawn(browser, node, vhost):
    node.put(f"queues/{vhost}/drawn", {"durable": True})
    node.post(f"bindings/{vhost}/e/amq.topic/q/drawn", {"routing_key": "a.#"})
    browser.go("graph")
    browser.choose("Virtual host", vhost)
    browser.wait(
        lambda: browser.driver.find_element(By.CSS_SELECTOR, '.graph a[aria-label="queue drawn"]'),
        "a box",
    )
    browser.see("1 bindings of 1 exchanges")


def test_an_alarm_is_a_banner_on_every_page(browser, node):
    browser.follow("Queues")
    steer(node, "PUT", "node/vm-memory-high-watermark", {"absolute": "1"})
    try:
        banner = browser.driver.find_element(By.ID, "alarm")
        browser.wait(lambda: "low on memory" in banner.text, "the banner")
        assert banner.get_attribute("role") == "alert"
    finally:
        steer(node, "PUT", "node/vm-memory-high-watermark", {"relative": "0.4"})
    browser.wait(lambda: not banner.is_displayed(), "that the banner goes")


def steer(node, method, path, body):
    """Over the control socket."""
    client = Client(data_dir=node.data_dir, url="", username="", password="", timeout=10)
    client.request(method, tuple(path.split("/")), body=body)


def test_names_that_look_like_markup_are_text(browser, node, vhost):
    name = "%3Cimg%20src%3Dx%20onerror%3Dwindow.broken%3D1%3E"
    node.put(f"queues/{vhost}/{name}", {"durable": True})
    browser.follow("Queues")
    browser.see("<img src=x onerror=window.broken=1>")
    browser.follow("<img src=x onerror=window.broken=1>")
    browser.see_title("Queue <img src=x onerror=window.broken=1>")
    assert browser.driver.execute_script("return window.broken") is None


def test_lists_sort_filter_and_page_and_stand_in_the_address(browser, node, vhost):
    for number in range(30):
        node.put(f"queues/{vhost}/n{number:02}", {"durable": True})
    browser.follow("Queues")
    browser.type("Filter", "n")
    browser.choose("Rows", "25")
    browser.press("Name")
    browser.see("page 1 of 2")
    browser.press("Name")
    cells = (By.CSS_SELECTOR, "tbody tr:first-child td:nth-child(2)")
    browser.wait(lambda: browser.driver.find_element(*cells).text == "n29", "the last first")
    browser.press("Next")
    browser.see("page 2 of 2")
    address = browser.driver.current_url
    assert "sort=name" in address
    assert "page=2" in address
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.see("page 2 of 2")


def test_typing_in_a_filter_survives_updates(browser, node, vhost):
    browser.choose("Refresh", "1")
    browser.follow("Queues")
    control = browser.control("Filter")
    control.send_keys("some")
    node.put(f"queues/{vhost}/something", {"durable": True})
    browser.see("something")
    assert browser.driver.switch_to.active_element.get_attribute("name") == "name"
    assert control.get_attribute("value") == "some"


def test_the_keyboard_is_enough(browser, node, vhost):
    """From the skip link to a deleted queue without a mouse; Escape ends a dialog."""
    node.put(f"queues/{vhost}/doomed", {"durable": True})
    browser.go("queues", vhost, "doomed")
    browser.see_title("Queue doomed")
    button = browser.button("Delete the queue")
    browser.driver.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    dialog = browser.dialog()
    focused = browser.driver.switch_to.active_element
    assert focused.text == "Cancel"
    focused.send_keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.driver.find_elements(By.TAG_NAME, "dialog"), "it closed")
    assert browser.driver.switch_to.active_element.text == "Delete the queue"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    dialog = browser.dialog()
    browser.driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
    browser.wait(lambda: browser.driver.switch_to.active_element.text == "Delete", "the focus")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.see_title("Queues")
    assert dialog
    assert node.request("GET", f"queues/{vhost}/doomed").status == 404


@pytest.mark.parametrize("page", PAGES, ids=lambda parts: "-".join(parts) or "overview")
def test_pages_fit_a_phone_and_have_names_for_everything(browser, page):
    driver = browser.driver
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        browser.go(*page)
        browser.wait(lambda: driver.find_element(By.TAG_NAME, "h1").text, "a heading")
        width = "return document.scrollingElement.scrollWidth"
        browser.wait(lambda: driver.execute_script(width) <= 360, "that it fits")
        assert driver.execute_script(UNNAMED) == []
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


UNNAMED = """
const named = (one) => one.getAttribute('aria-label') || one.labels?.length
  || one.textContent.trim() || one.closest('label');
const all = [...document.querySelectorAll('button, input, select, textarea, a')];
const levels = [...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]));
const jumps = levels.filter((level, place) => place && level > levels[place - 1] + 1);
return [...all.filter((one) => !named(one)).map((one) => one.outerHTML),
  ...jumps.map((level) => `h${level} out of order`)];
"""


def test_dark_colours_are_remembered(browser):
    browser.press("Use dark colours")
    theme = "return document.documentElement.dataset.theme"
    assert browser.driver.execute_script(theme) == "dark"
    browser.driver.refresh()
    browser.see_title("Overview")
    assert browser.driver.execute_script(theme) == "dark"


def test_a_user_sees_what_its_tags_allow(browser, node, vhost):
    node.put("users/bert", {"password": "secret", "tags": "management"})
    node.put(f"permissions/{vhost}/bert", {"configure": "", "write": "", "read": ".*"})
    browser.press("Log out")
    browser.log_in("bert", "secret")
    assert "Admin" not in browser.driver.find_element(By.ID, "nav").text
    assert "Node" not in browser.text()
    node.delete("users/bert")
