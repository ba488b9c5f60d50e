"""RabbitMQ's Grafana dashboards show data: a real Prometheus scrapes a busy node.

The test needs the program `prometheus` (for example Debian's package) and is skipped without it.
The names and labels of all metrics are tested without it, too. If LEVERET_TEST_DASHBOARDS names a
directory with RabbitMQ's own dashboards, the expressions in those files are evaluated.
"""

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.mgmt import dashboards
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

PROMETHEUS = shutil.which("prometheus") or os.environ.get("LEVERET_TEST_PROMETHEUS")
OWN_FILES = os.environ.get("LEVERET_TEST_DASHBOARDS")
CONFIGURATION = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: totals
    static_configs: [{targets: ["127.0.0.1:%(port)d"]}]
  - job_name: objects
    metrics_path: /metrics/per-object
    static_configs: [{targets: ["127.0.0.1:%(port)d"]}]
"""


class Traffic(threading.Thread):
    """Clients that repeatedly do everything that a panel shows."""

    def __init__(self, node, vhost):
        super().__init__()
        self._parameters = pika.ConnectionParameters("127.0.0.1", node.port, vhost)
        self._over = threading.Event()

    def run(self):
        for number in itertools.count():
            if self._over.is_set():
                return
            connection = pika.BlockingConnection(self._parameters)
            self._work(connection, f"q{number}")
            connection.close()

    def _work(self, connection, name):
        channel = connection.channel()
        channel.queue_declare(name)
        channel.basic_publish("amq.direct", "nowhere", b"dropped")
        channel.basic_get(name)
        channel.confirm_delivery()
        for _ in range(6):
            channel.basic_publish("", name, b"x")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"returned", mandatory=True)
        channel.basic_get(name, auto_ack=True)
        method, _, _ = channel.basic_get(name)
        channel.basic_reject(method.delivery_tag)
        for auto_ack, count in ((False, 2), (True, 1)):
            taken = channel.consume(name, auto_ack=auto_ack)
            for method, _, _ in itertools.islice(taken, count):
                if not auto_ack:
                    channel.basic_ack(method.delivery_tag)
            channel.cancel()
        time.sleep(0.05)
        channel.queue_delete(name)
        channel.close()

    def stop(self):
        self._over.set()
        self.join(PATIENCE_SECONDS)


class Prometheus:
    """A Prometheus that scrapes a node every second."""

    def __init__(self, directory, node):
        (self.port,) = free_ports(1)
        file = directory / "prometheus.yml"
        file.write_text(CONFIGURATION % {"port": node.metrics_port})
        self._process = subprocess.Popen(
            [
                PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL, stderr=(directory / "log").open("w"),
        )  # fmt: skip

    def _ask(self, path):
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_SECONDS
        ) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        """Return the current values of an expression."""
        query = urllib.parse.urlencode({"query": expression})
        return [float(one["value"][1]) for one in self._ask(f"/api/v1/query?{query}")["result"]]

    def targets(self):
        try:
            return self._ask("/api/v1/targets")["activeTargets"]
        except OSError:
            return []

    def stop(self):
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)


@pytest.fixture
def traffic(node, vhost):
    clients = Traffic(node, vhost)
    clients.start()
    yield
    clients.stop()


@pytest.fixture
def prometheus(tmp_path, node):
    if PROMETHEUS is None:
        pytest.skip("there is no prometheus here")
    server = Prometheus(tmp_path, node)
    yield server
    server.stop()


def filled_in(expression, cluster):
    """Insert values for the dashboard's variables, as Grafana does."""
    return expression.replace("$rabbitmq_cluster", cluster).replace("$namespace", "")


def test_every_panel_of_the_overview_shows_data(node, prometheus, traffic):
    cluster = node.get("overview")["cluster_name"]
    wanted = {filled_in(one, cluster) for one in dashboards.overview()}
    moving = {one for one in wanted if "[60s]" in one and " - " not in one}

    def has_data(one):
        values = prometheus.values(one)
        return values and not any(map(math.isnan, values)) and (one not in moving or values[0] > 0)

    def is_complete():
        for one in tuple(wanted):
            if has_data(one):
                wanted.discard(one)
        return not wanted

    node.wait_until(lambda: len(prometheus.targets()) == 2, "Prometheus is up")
    try:
        node.wait_until(is_complete)
    except AssertionError:
        raise AssertionError(f"no data for {sorted(wanted)}") from None
    others = [filled_in(one, cluster) for one in dashboards.others()]
    assert [one for one in others if not prometheus.values(one)] == []
    assert {target["lastError"] for target in prometheus.targets()} == {""}


@pytest.mark.skipif(OWN_FILES is None, reason="RabbitMQ's dashboards are not here")
def test_the_overview_as_rabbitmq_ships_it(node, prometheus, traffic):
    cluster = node.get("overview")["cluster_name"]
    text = (Path(OWN_FILES) / "RabbitMQ-Overview.json").read_text()
    found = [json.loads(f'"{one}"') for one in re.findall(r'"expr": "((?:[^"\\]|\\.)*)"', text)]
    wanted = {filled_in(one, cluster) for one in found}
    assert len(wanted) > 30

    def is_complete():
        for one in tuple(wanted):
            if prometheus.values(one):
                wanted.discard(one)
        return not wanted

    node.wait_until(lambda: len(prometheus.targets()) == 2, "Prometheus is up")
    try:
        node.wait_until(is_complete)
    except AssertionError:
        raise AssertionError(f"no data for {sorted(wanted)}") from None


def test_all_that_dashboards_ask_for_is_there_with_labels_that_match(node, traffic):
    """Metrics that are combined in one expression must have the same labels."""
    labels = {}
    for family in text_string_to_metric_families(node.metrics()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).add(tuple(sorted(sample.labels.items())))
    for expression in (*dashboards.overview(), *dashboards.others()):
        names = set(re.findall(r"\b(?:rabbitmq|erlang)_\w+(?=[\[{ ])", expression))
        names -= {"rabbitmq_identity_info"}
        assert names <= labels.keys()
        assert len({frozenset(labels[name]) for name in names}) == 1, expression
    (identity,) = labels["rabbitmq_identity_info"]
    assert dict(identity).keys() >= {"rabbitmq_cluster", "rabbitmq_node"}
