"""The services of docker/compose.yaml, run as it says, each on a host of its own.

There is no container engine: namespaces stand in for containers (isolated_network.py), the programs
are this environment's Leveret and the system's HAProxy and Prometheus. Grafana does not run; what
it would ask Prometheus for is asked by the test.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import time
import urllib.parse
import urllib.request
from base64 import b64encode
from pathlib import Path

import pika
import pytest
import yaml
from pika import exceptions

from tests.packaging.compose import IMAGE, services_of
from tests.packaging.isolated_network import Host, NoPermission, isolated_network
from tests.patience import PATIENCE_SECONDS

DOCKER = Path(__file__).resolve().parents[2] / "docker"
COMPOSE = DOCKER / "compose.yaml"
SERVICES = services_of(COMPOSE, {"LEVERET_COOKIE": "a secret of all nodes"})
PROXY, PROMETHEUS = SERVICES["haproxy"], SERVICES["prometheus"]
NODES = [service for service in SERVICES.values() if service.image == IMAGE]
HELPERS = [PROXY, PROMETHEUS] if shutil.which("prometheus") else [PROXY]
PROGRAMS = Path(sys.executable).parent
KEPT_VARIABLES = ("LEVERET_PURE", "COVERAGE_PROCESS_START")
PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed")


def command_of(service):
    """What the service's image runs: its entry point with the command of the file."""
    if service.image == IMAGE:
        return [PROGRAMS / "leveret", *service.command]
    configuration = service.volumes[0].target
    if service is PROXY:
        return [shutil.which("haproxy"), "-db", "-f", configuration]
    # Data go where a host has memory of its own; the image has a directory for them.
    return [
        shutil.which("prometheus"), f"--config.file={configuration}",
        "--storage.tsdb.path=/var/lib/prometheus",
    ]  # fmt: skip


def mounts_of(service, volumes):
    """Files of docker/, and the volumes of nodes, which are directories of the test."""
    for volume in service.volumes if service in NODES else service.volumes[:1]:
        source = DOCKER / volume.source if volume.source[0] == "." else volumes / volume.source
        if not source.exists():
            source.mkdir()
        yield source.resolve(), volume.target, volume.is_read_only


def host_of(service, directory, hosts_file):
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment = {**kept, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **service.environment}
    return Host(
        service.host, service.address, hosts_file, list(mounts_of(service, directory)),
        command_of(service), environment, directory / f"{service.name}.log",
    )  # fmt: skip


def is_healthy(service, host):
    """Run the health check as the file says."""
    check = service.health_check
    return host.run(check.command, PATIENCE_SECONDS).returncode == 0


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The hosts of the nodes, the proxy and Prometheus, by the names of their services."""
    directory = tmp_path_factory.mktemp("compose")
    hosts_file = directory / "hosts"
    lines = [f"{service.address} {service.host}" for service in SERVICES.values()]
    hosts_file.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    hosts = {one.name: host_of(one, directory, hosts_file) for one in (*NODES, *HELPERS)}
    gateway = f"{PROXY.address.rpartition('.')[0]}.1"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(isolated_network(gateway))
            for node in NODES:
                stack.callback(hosts[node.name].stop, node.stop_s)
                hosts[node.name].start()
        except NoPermission as reason:
            pytest.skip(f"namespaces cannot be made: {reason}")
        for node in NODES:
            host = hosts[node.name]
            wait_until(lambda node=node, host=host: is_healthy(node, host), f"{host.log}\nhealthy")
        for service in HELPERS:
            stack.callback(hosts[service.name].stop, service.stop_s)
            hosts[service.name].start()
        port = dict(PROXY.ports)[15672]
        wait_until(lambda: can_get(PROXY.address, port), "the proxy answers")
        yield hosts


def can_get(address, port):
    with contextlib.suppress(OSError):
        return bool(get(address, port, "/api/overview"))
    return False


def get(address, port, path):
    """The body of an answer, as the user of the file."""
    login = b64encode(f"leveret:{NODES[0].environment['LEVERET_DEFAULT_PASS']}".encode()).decode()
    request = urllib.request.Request(
        f"http://{address}:{port}{path}", headers={"Authorization": f"Basic {login}"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return answer.read().decode()


def connect(address=PROXY.address):
    """A connection to the proxy, at the port that the file publishes, or to a node."""
    login = pika.PlainCredentials("leveret", NODES[0].environment["LEVERET_DEFAULT_PASS"])
    port = dict(PROXY.ports)[5672]
    return pika.BlockingConnection(
        pika.ConnectionParameters(address, port, credentials=login, heartbeat=0)
    )


class Publisher:
    """Publishes with confirms through the proxy, and connects again when that is lost."""

    def __init__(self, queues):
        self._queues = queues
        self._connection = None
        self._number = 0
        self.confirmed = set()

    def publish(self, count):
        """Publish until a number of further messages are confirmed."""
        wanted = len(self.confirmed) + count
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.confirmed) < wanted:
            assert time.monotonic() < deadline, "publishers are confirmed"
            try:
                self._publish()
            except exceptions.AMQPError:
                self._connection = None

    def _publish(self):
        if self._connection is None:
            self._connection = connect()
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
        self._number += 1
        body = b"%d" % self._number
        queue = self._queues[self._number % len(self._queues)]
        # That of a node which is down refuses the message.
        with contextlib.suppress(exceptions.UnroutableError, exceptions.NackError):
            self._channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)
            self.confirmed.add(body)


def test_clients_of_the_proxy_lose_nothing_while_a_node_is_stopped_and_started(running):
    queues = [f"on-{node.name}" for node in NODES]
    for node, queue in zip(NODES, queues, strict=True):
        with connect(node.address) as connection:
            connection.channel().queue_declare(queue, durable=True)
    publisher = Publisher(queues)
    publisher.publish(30)
    stopped = NODES[1]
    assert running[stopped.name].stop(stopped.stop_s) == 0
    assert "pauses" not in running[stopped.name].log, "its links end since it stops"
    publisher.publish(30)
    running[stopped.name].start()
    wait_until(lambda: is_healthy(stopped, running[stopped.name]), "the node is healthy again")
    publisher.publish(30)
    taken = set()
    with connect() as connection:
        channel = connection.channel()
        for queue in queues:
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                taken.add(got[2])
    assert publisher.confirmed <= taken


def test_the_web_pages_behind_the_proxy_show_all_nodes(running):
    nodes = json.loads(get(PROXY.address, dict(PROXY.ports)[15672], "/api/nodes"))
    assert sorted(node["name"] for node in nodes) == sorted(
        node.environment["LEVERET_NODE"] for node in NODES
    )
    assert all(node["running"] for node in nodes)


def expressions():
    """What the panels of all dashboards ask Prometheus for."""
    return [
        target["expr"]
        for file in (DOCKER / "grafana/dashboards").glob("*.json")
        for panel in json.loads(file.read_text())["panels"]
        for target in panel["targets"]
    ]


def test_each_target_of_prometheus_has_what_the_dashboards_show(running):
    (job,) = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
    (targets,) = (one["targets"] for one in job["static_configs"])
    with connect() as connection:
        connection.channel().queue_declare("shown")
    addresses = {service.host: service.address for service in SERVICES.values()}
    asked = {name for text in expressions() for name in re.findall(r"rabbitmq_\w+", text)}
    assert asked
    for target in targets:
        host, _, port = target.partition(":")
        types = re.findall(r"^# TYPE (\S+)", get(addresses[host], port, "/metrics"), re.MULTILINE)
        assert asked <= set(types), target


def ask_prometheus(expression):
    """The series that Prometheus gives to Grafana for an expression."""
    provisioned = DOCKER / "grafana/provisioning/datasources/prometheus.yaml"
    (source,) = yaml.safe_load(provisioned.read_text())["datasources"]
    address = urllib.parse.urlsplit(source["url"])
    query = urllib.parse.urlencode({"query": expression})
    answer = get(SERVICES[address.hostname].address, address.port, f"/api/v1/query?{query}")
    return json.loads(answer)["data"]["result"]


def sees_all_nodes_up():
    with contextlib.suppress(OSError):
        up = {one["metric"]["instance"]: one["value"][1] for one in ask_prometheus("up")}
        return up == {f"{node.host}:15692": "1" for node in NODES}
    return False


@pytest.mark.skipif(not shutil.which("prometheus"), reason="Prometheus is not installed")
def test_prometheus_sees_all_nodes_and_answers_what_the_dashboards_ask(running):
    with connect() as connection:
        connection.channel().queue_declare("shown")
        wait_until(sees_all_nodes_up, f"{running['prometheus'].log}\nall nodes are up")
    for expression in expressions():
        series = ask_prometheus(expression)
        # A rate needs two samples, of which the second one comes ten seconds later.
        if "rate(" not in expression:
            of_each_node = series and "instance" in series[0]["metric"]
            assert len(series) == (len(NODES) if of_each_node else 1), expression
