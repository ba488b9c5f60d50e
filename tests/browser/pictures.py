"""Takes the pictures of docs/operate/management.md, from the pages of a node with some traffic.

Run it with `make pictures`; it takes about two minutes. A shop's exchanges, queues and policies are
declared, clients publish and consume for more than a minute, so that charts have lines and one
consumer is stalled, and each picture is taken of the part of a page that the docs describe.
"""

import json
import math
import random
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pika

from tests.browser.browser import Browser
from tests.browser.chromium import start_chromium
from tests.mgmt.served_node import ServedNode

PICTURES = Path(__file__).parents[2] / "docs" / "operate" / "pictures"
WIDTH = 1160
TRAFFIC_SECONDS = 80
"""A consumer is shown as stalled after a minute."""
QUEUES = {
    "orders": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.failed"},
    "orders.failed": {},
    "invoices": {"x-max-length": 100_000},
    "mail": {"x-max-priority": 5},
    "stock": {"x-single-active-consumer": True},
    "audit": {"x-queue-mode": "lazy"},
}
BINDINGS = [
    ("shop", "q", "orders", "order.#"), ("shop", "q", "invoices", "order.paid"),
    ("shop", "q", "mail", "order.paid"), ("shop", "q", "stock", "order.created"),
    ("shop", "e", "everything", "#"), ("everything", "q", "audit", ""),
]  # fmt: skip
POLICIES = {
    "limits": {"pattern": "^(orders|mail)", "definition": {"max-length": 1_000_000}, "priority": 1},
    "short-lived": {"pattern": "^tmp\\.", "definition": {"expires": 60_000, "message-ttl": 10_000}},
    "lazy": {"pattern": "^audit", "definition": {"queue-mode": "lazy"}, "apply-to": "queues"},
}


def declare(node):
    node.put("cluster-name", {"name": "shop"})
    node.put("exchanges/%2F/shop", {"type": "topic", "durable": True})
    node.put("exchanges/%2F/everything", {"type": "fanout", "durable": True})
    for name, arguments in QUEUES.items():
        node.put(f"queues/%2F/{name}", {"durable": True, "arguments": arguments})
    for source, kind, destination, key in BINDINGS:
        body = {"routing_key": key}
        assert node.post(f"bindings/%2F/e/{source}/{kind}/{destination}", body).status == 201
    for name, policy in POLICIES.items():
        node.put(f"policies/%2F/{name}", {"apply-to": "all", "priority": 0, **policy})
    node.put("vhosts/staging", {"description": "what comes next", "tags": "staging"})


def reject_two(node):
    """Two dead letters in orders.failed."""
    for number, tenant in enumerate(("eu-west", "us-east")):
        headers = {"tenant": tenant, "attempt": number + 1}
        properties = {"headers": headers, "content_type": "application/json"}
        payload = json.dumps({"order": 1041 + number, "total": "12.90"})
        node.publish("/", "order.created", payload, properties, exchange="shop")
    body = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(node.post("queues/%2F/orders/get", body).body) == 2


class Traffic:
    """Clients that publish and consume until `stop`."""

    def __init__(self, port):
        self._port = port
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self.publish, self.consume)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(10)

    def _connection(self, name):
        properties = {"connection_name": name}
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self._port, client_properties=properties)
        )

    def publish(self):
        connection = self._connection("web shop")
        channel = connection.channel()
        channel.confirm_delivery()
        chance, started = random.Random(1), time.monotonic()
        while not self._is_over.is_set():
            wave = 1 + math.sin((time.monotonic() - started) / 8)
            for _ in range(1 + int(6 * wave)):
                key = chance.choice(("order.created", "order.paid", "order.sent", "visit"))
                channel.basic_publish("shop", key, b"x" * chance.randrange(100, 3000))
            connection.sleep(0.1)
        connection.close()

    def consume(self):
        connection = self._connection("back office")
        channel = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for queue in ("invoices", "stock", "orders"):
            channel.basic_consume(queue, self._ack, consumer_tag=f"{queue}-worker")
        idle = connection.channel()
        idle.basic_qos(prefetch_count=10)
        idle.basic_consume("mail", lambda *_: None, consumer_tag="mailer-1")
        channel.basic_consume("mail", self._ack, consumer_tag="mailer-2")
        while not self._is_over.is_set():
            connection.process_data_events(0.1)
        connection.close()

    @staticmethod
    def _ack(channel, method, _properties, _body):
        channel.basic_ack(method.delivery_tag)


class Camera:
    """Takes pictures of the browser's window."""

    def __init__(self, browser):
        self._browser = browser

    def take(self, name, height, panel=None, width=WIDTH):
        """Save a picture. height: pixels. panel: scrolled to the top; else the top of the page."""
        driver = self._browser.driver
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.execute_script("scrollTo(0, 0); document.activeElement.blur()")
        if panel:
            driver.execute_script("arguments[0].scrollIntoView()", self._browser.panel(panel))
        # Charts are drawn again for the new width, in the next frames.
        driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 300))")
        (PICTURES / f"{name}.png").write_bytes(driver.get_screenshot_as_png())


def take_all(browser, node):
    camera = Camera(browser)
    browser.see("Ports and contexts")
    camera.take("overview", 900)
    browser.follow("Queues")
    browser.see("orders.failed")
    camera.take("queues", 560)
    browser.go("queues", "/", "mail")
    browser.see("holds messages and acknowledges none")
    camera.take("queue", 900)
    browser.follow("Consumers")
    browser.see("stalled")
    camera.take("consumers", 480)
    browser.go("queues", "/", "orders.failed", "dead-letters")
    browser.see("rejected in queue orders")
    camera.take("workbench", 760, "Dead letters in this queue")
    browser.go("graph")
    browser.see("order.#")
    camera.take("bindings", 560)
    browser.go("nodes", node.name)
    browser.see("Queues: ")
    camera.take("node", 820, "Resource limits")
    browser.go("admin", "policies")
    browser.see("short-lived")
    camera.take("policies", 760)
    take_preview(browser, camera, node)
    browser.go("queues")
    browser.driver.execute_script("document.documentElement.dataset.theme = 'dark'")
    browser.see("orders.failed")
    camera.take("phone", 800, width=390)
    browser.driver.execute_script("delete document.documentElement.dataset.theme")
    browser.go("")
    browser.driver.execute_script("document.getElementById('logout').click()")
    browser.control("Username")
    camera.take("login", 480)


def take_preview(browser, camera, node):
    definitions = node.get("definitions")
    definitions["queues"][0]["arguments"] = {"x-max-length": 10}
    definitions["queues"].append({"name": "returns", "vhost": "/", "durable": True,
                                  "auto_delete": False, "arguments": {}})  # fmt: skip
    definitions["policies"][0]["definition"] = {"max-length": 2_000_000}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(definitions, file)
        file.flush()
        browser.go("")
        browser.control("Definitions file").send_keys(file.name)
        browser.press("Preview changes")
        browser.dialog()
        camera.take("definitions", 560)
    browser.press("Cancel", browser.dialog())


def main():
    with tempfile.TemporaryDirectory() as directory:
        places = SimpleNamespace(node=Path(directory, "node"), chromium=Path(directory, "chromium"))
        places.node.mkdir()
        node = ServedNode(places.node, "collect_statistics_interval = 5000", "rabbit@shop")
        driver = start_chromium(places.chromium)
        traffic = None
        try:
            declare(node)
            reject_two(node)
            traffic = Traffic(node.port)
            time.sleep(TRAFFIC_SECONDS)
            browser = Browser(driver, node)
            driver.set_window_size(WIDTH, 900)
            driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            browser.begin()
            browser.choose("Refresh", "5")
            take_all(browser, node)
        finally:
            if traffic is not None:
                traffic.stop()
            driver.quit()
            node.stop()


if __name__ == "__main__":
    main()
