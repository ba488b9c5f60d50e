"""The pages of connections, channels, exchanges, bindings and nodes: display and actions."""

import json

import pika
import pytest
from selenium.webdriver.common.by import By

from leveret.mgmt.ctl.client import NodeClient
from tests.browser.browser import Browser
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def client(node, vhost):
    """A connection with a channel and a consumer."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, vhost))
    channel = connection.channel()
    channel.queue_declare("watched")
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("watched", lambda *_: None, consumer_tag="watcher")
    yield connection
    if connection.is_open:
        connection.close()


def steer(node, method, path, body):
    """Send a request over the control socket."""
    client = NodeClient(
        data_dir=node.data_dir, url="", username="", password="", timeout=PATIENCE_SECONDS
    )
    client.request(method, tuple(path.split("/")), body=body)


def test_the_overview_shows_the_node_and_its_charts_live(browser, node, vhost):
    for text in ("Totals", "Queued messages", "Message rates", node.name, "http/prometheus"):
        browser.see(text)
    node.put(f"queues/{vhost}/q")
    for number in range(5):
        node.publish(vhost, "q", str(number))
    chart = browser.panel("Queued messages").find_element(By.TAG_NAME, "svg")
    browser.wait(lambda: "now 5" in chart.get_attribute("aria-label"), "the messages in the chart")
    browser.choose("Chart range", "600")
    assert "age=600" in browser.driver.current_url


def test_a_node_has_a_page_with_what_its_memory_is_for(browser, node):
    browser.follow(node.name)
    browser.see_title(f"Node {node.name}")
    memory = browser.panel("Memory details")
    browser.see_in(memory, "Queues: ")
    picture = memory.find_element(By.CSS_SELECTOR, ".stacked").get_attribute("aria-label")
    assert "Code: " in picture
    for text in ("Data directory", "Free disk space", "File descriptors", "rabbitmq_management"):
        browser.see(text)


def test_definitions_are_reviewed_before_they_are_imported(browser, node, vhost, tmp_path):
    path = tmp_path / "definitions.json"
    queue = {"name": "imported", "vhost": vhost, "durable": True, "auto_delete": False,
             "arguments": {}}  # fmt: skip
    path.write_text(json.dumps({"queues": [queue]}))
    browser.control("Definitions file").send_keys(str(path))
    browser.press("Preview changes")
    browser.see("+ queue imported")
    assert node.request("GET", f"queues/{vhost}/imported").status == 404
    browser.check("Import these definitions")
    browser.press("Import")
    browser.see("Definitions imported")
    assert node.get(f"queues/{vhost}/imported")["durable"]


def test_definitions_that_are_none_are_refused(browser, tmp_path):
    path = tmp_path / "definitions.json"
    path.write_text("no JSON")
    browser.control("Definitions file").send_keys(str(path))
    browser.press("Preview changes")
    browser.see("failed_to_parse_json")


def test_definitions_are_downloaded(browser, vhost, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    browser.press("Download broker definitions")
    browser.see("Definitions exported")
    path = tmp_path / "definitions.json"
    browser.wait(path.exists, "the file")
    assert vhost in [one["name"] for one in json.loads(path.read_text())["vhosts"]]


def test_connections_and_channels_are_shown_and_closed(browser, node, client, vhost):
    browser.follow("Connections")
    browser.choose("Virtual host", vhost)
    browser.see("127.0.0.1")
    name = node.get(f"vhosts/{vhost}/connections")[0]["name"]
    browser.follow(name)
    browser.see_title(f"Connection {name}")
    browser.see("Pika Python Client Library")
    browser.follow(f"{name} (1)")
    browser.see_in(browser.panel("Consumers"), "watcher")
    browser.go("connections", name)
    browser.press("Force close")
    browser.type("Reason sent to the client", "Wartung läuft ☃", browser.dialog())
    browser.confirm("Close")
    browser.see("Connection closed")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Wartung läuft ☃"):
        client.process_data_events(PATIENCE_SECONDS)


def test_an_exchange_is_made_bound_published_to_and_deleted(browser, node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True})
    browser.follow("Exchanges")
    panel = browser.panel("Add a new exchange")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "events", panel)
    browser.choose("Type", "topic", panel)
    browser.press("Add exchange", panel)
    browser.see("Exchange events added")
    browser.go("exchanges", vhost, "events")
    bind(browser, "q", "a.#")
    panel = browser.panel("Publish message")
    browser.type("Routing key", "a.b", panel)
    browser.type("Headers", '{"tenant": "eu"}', panel)
    browser.press("content_type", panel)
    browser.type("Payload", "hello", panel)
    browser.press("Publish message", panel)
    browser.see("Message published")
    (message,) = node.get(f"queues/{vhost}/q/messages")["messages"]
    assert message["properties"]["headers"] == {"tenant": "eu"}
    assert message["properties"]["content_type"] == "application/json"
    browser.type("Routing key", "nobody", panel)
    browser.press("Publish message", panel)
    browser.see("not routed: no binding matches")
    browser.press("Unbind q from events with a.#")
    browser.confirm("Unbind")
    browser.see("Unbound")
    browser.press("Delete this exchange")
    browser.confirm("Delete")
    browser.see_title("Exchanges")
    assert node.request("GET", f"exchanges/{vhost}/events").status == 404


def test_delayed_messages_are_listed_sought_sent_and_cancelled(browser, node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True})
    browser.follow("Exchanges")
    panel = browser.panel("Add a new exchange")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "later", panel)
    assert "Messages wait on" not in panel.text
    browser.choose("Type", "x-delayed-message", panel)
    browser.choose("Type after the delay", "fanout", panel)
    browser.choose("Messages wait on", "quorum", panel)
    browser.press("Add exchange", panel)
    browser.see("Exchange later added")
    assert "Messages wait on" not in panel.text
    declared = node.get(f"exchanges/{vhost}/later")["arguments"]
    assert declared == {"x-delayed-type": "fanout", "x-delayed-queue-type": "quorum"}
    node.post(f"bindings/{vhost}/e/later/q/q", {"routing_key": ""})
    for number in range(4):
        headers = {"x-delay": 3_600_000 + number, "customer": f"c{number}"}
        properties = {"message_id": f"m{number}", "headers": headers}
        node.publish(vhost, "", f"job {number}", properties, exchange="later")
    browser.go("exchanges", vhost, "later")
    panel = browser.panel("Delayed messages")
    browser.see_in(panel, "job 3")
    browser.type("Header", "customer:c[12]", panel)
    browser.press("Search", panel)
    browser.see_in(panel, "2 found among 4.")
    assert "job 0" not in panel.text
    browser.press("Cancel found", panel)
    browser.confirm("Cancel messages")
    browser.see_in(panel, "0 found among 2.")
    browser.type("Header", "", panel)
    browser.press("Search", panel)
    browser.see_in(panel, "job 0")
    browser.press("Send now", panel)
    browser.see("Message m0 sent")
    browser.press("Send all now", panel)
    browser.see_in(panel, "No messages wait.")
    found = node.get(f"queues/{vhost}/q/messages")["messages"]
    assert [one["payload"] for one in found] == ["job 0", "job 3"]


def bind(browser, queue, key):
    """Bind a queue to the displayed exchange."""
    panel = browser.panel("Add binding from this exchange")
    browser.type("Name", queue, panel)
    browser.type("Routing key", key, panel)
    browser.press("Bind", panel)
    browser.see("Bound")
    browser.see_in(browser.panel("Bindings from this exchange"), key)


def test_an_exchange_that_is_refused_is_told_beforehand(browser, node, vhost):
    node.put(f"exchanges/{vhost}/there", {"type": "topic", "durable": True})
    browser.follow("Exchanges")
    panel = browser.panel("Add a new exchange")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "there", panel)
    browser.choose("Type", "fanout", panel)
    browser.press("Preview", panel)
    browser.see_in(panel, 'type: requested "fanout", existing "topic"')
    browser.type("Arguments", "[1]", panel)
    browser.press("Add exchange", panel)
    browser.see("The arguments must be a JSON object")


def test_bindings_are_drawn(browser, node, vhost):
    node.put(f"queues/{vhost}/drawn", {"durable": True})
    node.put(f"exchanges/{vhost}/inner", {"type": "fanout"})
    node.post(f"bindings/{vhost}/e/amq.topic/e/inner", {"routing_key": "a.#"})
    node.post(f"bindings/{vhost}/e/inner/q/drawn", {"routing_key": ""})
    browser.follow("Bindings")
    browser.choose("Virtual host", vhost)
    box = browser.wait(
        lambda: browser.driver.find_element(By.CSS_SELECTOR, '.graph a[aria-label="queue drawn"]'),
        "a box",
    )
    browser.see("2 bindings between 3 exchanges and queues")
    browser.see("a.#")
    browser.type("Filter by name or key", "topic")
    browser.see("1 binding between 2 exchanges and queues")
    browser.type("Filter by name or key", "drawn")
    box = browser.driver.find_element(By.CSS_SELECTOR, '.graph a[aria-label="queue drawn"]')
    browser.driver.execute_script("arguments[0].focus()", box)
    box.send_keys("\ue007")
    browser.see_title("Queue drawn")


def test_all_ways_of_messages_are_drawn_and_those_that_lead_nowhere_are_named(browser, node, vhost):
    alternate = {"type": "direct", "arguments": {"alternate-exchange": "unrouted"}}
    node.put(f"exchanges/{vhost}/in", alternate)
    node.put(f"exchanges/{vhost}/unrouted", {"type": "fanout"})
    for name, target in (("orders", "dead"), ("bills", "missing")):
        arguments = {"x-dead-letter-exchange": target}
        node.put(f"queues/{vhost}/{name}", {"durable": True, "arguments": arguments})
        node.post(f"bindings/{vhost}/e/in/q/{name}", {"routing_key": name})
    node.put(f"exchanges/{vhost}/dead", {"type": "fanout"})
    node.put(f"queues/{vhost}/poison", {"durable": True})
    node.post(f"bindings/{vhost}/e/dead/q/poison", {})
    node.publish(vhost, "orders", "waits")
    ends = {"src-queue": "poison", "dest-queue": "archive", "dest-uri": "amqp:///%2F"}
    value = {"src-uri": f"amqp:///{vhost}", **ends}
    node.put(f"parameters/shovel/{vhost}/away", {"value": value})
    node.wait_until(lambda: "src_uri" in node.get(f"shovels/vhost/{vhost}/away"), "the shovel runs")
    browser.follow("Bindings")
    browser.choose("Virtual host", vhost)
    browser.see("3 bindings between 8 exchanges and queues, and 4 lines of dead letters")
    browser.see("Queue bills sends its dead letters to exchange missing, which does not exist")
    browser.see("Exchange unrouted has no binding and no alternate exchange")
    browser.see("1 message, oldest")
    node.put(f"queues/{vhost}/alone", {"durable": True})
    browser.see("and 1 queue without a binding")
    browser.see("shovel away")
    kinds = browser.driver.execute_script(
        "return [...document.querySelectorAll('.graph .edge')].map((one) => one.classList[1])"
    )
    assert sorted(kinds) == [
        "alternate", "binding", "binding", "binding", "dead-letter", "dead-letter", "shovel"
    ]  # fmt: skip
    node.delete("queues/%2F/archive")


RATES = """
const [prefix, done] = arguments;
const row = (type, rates) => ({type, message_stats:
  Object.fromEntries(Object.entries(rates).map(([name, rate]) => [`${name}_details`, {rate}]))});
const edge = (kind, from, into, routing_key = "", key) => ({kind, from, into, routing_key, key,
  source: from.split(" ")[1], destination: into.split(" ")[1]});
const exchanges = new Map(Object.entries({in: row("topic", {publish_in: 25, publish_out: 101}),
  all: row("fanout", {}), dead: row("direct", {}), circle: row("fanout", {}),
  one: row("direct", {publish_in: 5, publish_out: 4})}));
const queues = new Map(Object.entries({copy: row("classic", {publish: 25}),
  orders: row("classic", {publish: 13}), poison: row("classic", {publish: 3})}));
const edges = [edge("binding", "exchange in", "exchange all", "#"),
  edge("binding", "exchange in", "queue orders", "order"),
  edge("binding", "exchange all", "queue copy"),
  edge("dead", "queue orders", "exchange dead", "", "failed"),
  edge("binding", "exchange dead", "queue poison", "failed"),
  edge("binding", "exchange one", "queue copy", "x"),
  edge("binding", "exchange circle", "exchange circle")];
import(`${prefix}ui/pages/edge_rates.js`).then(({EdgeRates}) => {
  new EdgeRates(edges, exchanges, queues, {bindings: ["binding"], others: ["dead"]}).add();
  done(edges.map(({rate, isBound}) => [rate ?? null, Boolean(isBound)]));
});
"""


def test_the_rate_of_a_line_is_exact_or_a_bound(browser):
    """Messages are counted by exchange and queue. In a circle a rate is not known."""
    assert browser.driver.execute_async_script(RATES, browser.url) == [
        [25, False], [13, True], [25, False], [3, True], [3, True], [4, False], [None, False]
    ]  # fmt: skip


def test_an_alarm_is_a_banner_on_every_page(browser, node):
    browser.follow("Queues")
    steer(node, "PUT", "node/vm-memory-high-watermark", {"absolute": "1"})
    try:
        banner = browser.driver.find_element(By.ID, "alarm")
        browser.wait(lambda: "low on memory" in banner.text, "the banner")
        assert banner.get_attribute("role") == "alert"
        browser.driver.execute_script("scrollTo(0, 10000)")
        assert banner.rect["y"] <= browser.driver.execute_script("return scrollY")
    finally:
        steer(node, "PUT", "node/vm-memory-high-watermark", {"relative": "0.4"})
    browser.wait(lambda: not banner.is_displayed(), "that the banner goes")


PARTITION = """
const before = window.fetch;
window.fetch = async (url, asked) => {
  const response = await before(url, asked);
  if (!String(url).includes("api/nodes")) return response;
  const nodes = await response.json();
  nodes[0].partitions = ["rabbit@other"];
  return new Response(JSON.stringify(nodes));
};
"""


def test_a_partition_is_told_in_the_banner(browser, node):
    browser.driver.execute_script(PARTITION)
    browser.see(f"Network partition: {node.name} has gone on without rabbit@other")
    browser.reload()


def test_a_node_that_is_gone_is_told_and_found_again(browser, node):
    browser.driver.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    problem = browser.driver.find_element(By.ID, "problem")
    try:
        browser.wait(lambda: "the node does not answer" in problem.text, "that it is told")
    finally:
        conditions["offline"] = False
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    browser.wait(lambda: not problem.is_displayed(), "that it is well again")


def test_a_path_prefix_goes_before_everything(browser, tmp_path):
    node = ServedNode(tmp_path, "management.path_prefix = /mq")
    try:
        other = Browser(browser.driver, node, prefix="/mq/")
        other.begin()
        other.follow("Queues")
        other.see_title("Queues")
        browser.open(f"http://127.0.0.1:{node.http_port}/mq")
        other.see_title("Overview")
    finally:
        node.stop()


def test_addresses_that_lead_nowhere(browser, vhost):
    browser.go("nonsense", "page")
    browser.see_title("Page not found")
    browser.open(f"{browser.url}#/queues/%/x")
    browser.see_title("Page not found")
    browser.go("queues", vhost, "absent")
    browser.see("Not found")
