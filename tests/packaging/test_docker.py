"""The files in docker/ fit each other, and the node that they run.

No container engine is needed: the files are read, and each node's settings are loaded as the node
would load them.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from leveret.broker.config import load_config
from leveret.cluster.links.configured_links import port_of
from leveret.mgmt.cli.application import app
from tests.packaging.compose import IMAGE, VariableMissing, services_of
from tests.patience import PATIENCE_SECONDS

DOCKER = Path(__file__).resolve().parents[2] / "docker"
COMPOSE = DOCKER / "compose.yaml"
COOKIE = "a cookie that is long enough for a node not to warn of it"
SERVICES = services_of(COMPOSE, {"LEVERET_COOKIE": COOKIE})
NODES = [service for service in SERVICES.values() if service.image == IMAGE]
HAPROXY = shutil.which("haproxy") or os.environ.get("LEVERET_TEST_HAPROXY")
every_node = pytest.mark.parametrize("node", NODES, ids=[node.name for node in NODES])


def file_of(node, target):
    """The file of the host that a node sees at a path."""
    (volume,) = [volume for volume in node.volumes if volume.target == target]
    assert volume.is_read_only
    return DOCKER / volume.source


def config_of(node):
    environment = dict(node.environment)
    file = file_of(node, environment.pop("LEVERET_CONFIG"))
    return load_config(file, environment, {})


def test_there_are_three_nodes_with_addresses_and_data_of_their_own():
    assert len(NODES) == 3
    data = [volume.source for node in NODES for volume in node.volumes if not volume.is_read_only]
    addresses = [service.address for service in SERVICES.values()]
    assert len(set(data)) == len(data) == 3
    assert len(set(addresses)) == len(addresses)


def test_the_cookie_must_be_set():
    with pytest.raises(VariableMissing, match="LEVERET_COOKIE: set it to a long random text"):
        services_of(COMPOSE, {})


@every_node
def test_the_settings_of_each_node_are_valid(node):
    config = config_of(node)
    assert config.node_name == f"leveret@{node.host}"
    assert config.default_user not in config.loopback_users
    assert config.default_pass == "leveret"
    assert config.cluster.cookie == COOKIE


@every_node
def test_each_node_lists_all_nodes(node):
    config = config_of(node)
    listed = {one.name for one in config.cluster_formation.nodes}
    assert listed == {config_of(other).node_name for other in NODES}


@every_node
def test_the_data_of_each_node_is_in_a_volume(node):
    (target,) = [volume.target for volume in node.volumes if not volume.is_read_only]
    assert str(config_of(node).data_dir) == target


@every_node
def test_commands_and_health_checks_are_commands_of_leveret(node):
    assert CliRunner().invoke(app, [*node.command, "--help"]).exit_code == 0
    program, *arguments = node.health_check.command
    assert (program, arguments) == ("leveretctl", ["--quiet", "check_running"])
    assert node.health_check.timeout_s <= node.health_check.interval_s
    assert node.stop_s >= 60


def test_the_image_has_the_health_check_and_the_ports_of_the_settings():
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    config = config_of(NODES[0])
    exposed = re.search(r"^EXPOSE (.*)$", text, re.MULTILINE)[1].split()
    ports = [
        config.tcp.listeners[0].port, config.management.port, config.prometheus.port,
        port_of(config),
    ]  # fmt: skip
    assert exposed == [str(port) for port in ports]
    assert f"CMD {json.dumps(NODES[0].health_check.command)}" in text
    assert re.search(r"^USER leveret$", text, re.MULTILINE)
    for name in ("LEVERET_DATA_DIR", "LEVERET_CONFIG"):
        assert f"{name}={NODES[0].environment[name]}" in text


def test_the_script_that_collects_the_image_is_copied_for_the_build_and_can_be_read():
    subprocess.run(["sh", "-n", DOCKER / "collect"], check=True, timeout=PATIENCE_SECONDS)
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    assert "RUN sh /source/docker/collect " in text
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    assert "!docker/collect" in ignored.splitlines()


def test_the_proxy_knows_all_nodes_and_waits_until_they_run():
    proxy = SERVICES["haproxy"]
    text = file_of(proxy, "/usr/local/etc/haproxy/haproxy.cfg").read_text(encoding="utf-8")
    for _, port in proxy.ports:
        servers = re.findall(rf"^ +server (\S+) (\S+):{port} check$", text, re.MULTILINE)
        assert servers == [(node.name, node.host) for node in NODES]
        assert re.search(rf"^ +bind :{port}$", text, re.MULTILINE)
    assert proxy.waits_for == {node.name: "service_healthy" for node in NODES}


@pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed")
def test_haproxy_accepts_its_file():
    command = [HAPROXY, "-c", "-q", "-f", str(DOCKER / "haproxy.cfg")]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)


def test_prometheus_scrapes_all_nodes():
    file = file_of(SERVICES["prometheus"], "/etc/prometheus/prometheus.yml")
    (job,) = yaml.safe_load(file.read_text(encoding="utf-8"))["scrape_configs"]
    port = config_of(NODES[0]).prometheus.port
    assert job["static_configs"] == [{"targets": [f"{node.host}:{port}" for node in NODES]}]


def test_grafana_finds_its_dashboards_and_their_source():
    grafana = SERVICES["grafana"]
    provisioning = file_of(grafana, "/etc/grafana/provisioning")
    source = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())
    (provider,) = yaml.safe_load((provisioning / "dashboards/leveret.yaml").read_text())[
        "providers"
    ]
    dashboards = file_of(grafana, provider["options"]["path"])
    uid = source["datasources"][0]["uid"]
    files = sorted(dashboards.glob("*.json"))
    assert files
    for file in files:
        panels = json.loads(file.read_text(encoding="utf-8"))["panels"]
        assert {panel["datasource"]["uid"] for panel in panels} == {uid}
        assert len({panel["id"] for panel in panels}) == len(panels)
