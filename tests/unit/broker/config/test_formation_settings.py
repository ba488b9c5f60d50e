"""The settings of cluster formation, as RabbitMQ's files write them."""

from pathlib import Path

import pytest

from leveret.broker.config import ConfigError
from leveret.broker.runtime.node_address import NodeAddress, read_node_address
from tests.rabbitmq_conf import load

EVERY_BACKEND = """
cluster_formation.classic_config.nodes.1 = a@127.0.0.1:25672
cluster_formation.classic_config.nodes.2 = b@host
cluster_formation.node_type = disk
cluster_formation.node_cleanup.interval = 30
cluster_formation.node_cleanup.only_log_warning = false
cluster_formation.randomized_startup_delay_range.min = 5
cluster_formation.randomized_startup_delay_range.max = 60
cluster_formation.consul.host = consul.local
cluster_formation.consul.acl_token = a-secret-token
cluster_formation.consul.svc_tags.1 = amqp
cluster_formation.consul.svc_meta.zone = east
cluster_formation.consul.lock_wait_time = 10
cluster_formation.consul.ssl_options.verify = verify_none
cluster_formation.etcd.endpoints.1 = one.etcd:2379
cluster_formation.etcd.endpoints.2 = [::1]:2380
cluster_formation.etcd.password = another-secret
cluster_formation.k8s.address_type = hostname
"""


def test_each_key_is_a_setting(tmp_path: Path) -> None:
    config = load(EVERY_BACKEND, directory=tmp_path)
    formation = config.cluster_formation
    assert config.settings_without_effect == ()
    assert formation.nodes == (NodeAddress("a@127.0.0.1", 25672), NodeAddress("b@host"))
    assert formation.node_type == "disc"
    assert (formation.cleanup_interval_s, formation.cleanup_only_logs) == (30, False)
    assert (formation.startup_delay_min_s, formation.startup_delay_max_s) == (5, 60)
    assert formation.consul.svc_tags == ("amqp",)
    assert formation.consul.svc_meta == (("zone", "east"),)
    assert formation.consul.lock_timeout_s == 10
    assert formation.consul.tls.verify == "verify_none"
    assert formation.etcd.endpoints == ("one.etcd:2379", "[::1]:2380")
    assert formation.kubernetes.address_type == "hostname"


def test_tokens_and_passwords_are_not_shown(tmp_path: Path) -> None:
    config = load(EVERY_BACKEND, directory=tmp_path)
    shown = repr(config) + repr(list(config.shown()))
    assert "a-secret-token" not in shown
    assert "another-secret" not in shown


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("config", "classic_config"),
        ("rabbit_peer_discovery_dns", "dns"),
        ("k8s", "kubernetes"),
        ("kubernetes", "kubernetes"),
        ("rabbit_peer_discovery_etcd", "etcd"),
    ],
)
def test_backends_have_all_names_that_rabbitmq_gives_them(tmp_path, name, backend):
    config = load(f"cluster_formation.peer_discovery_backend = {name}\n", directory=tmp_path)
    assert config.cluster_formation.backend == backend


@pytest.mark.parametrize(
    "line",
    [
        "cluster_formation.peer_discovery_backend = aws",
        "cluster_formation.classic_config.nodes.1 = host",
        "cluster_formation.classic_config.nodes.1 = a@host:0",
        "cluster_formation.classic_config.nodes.1 = a@host:70000",
        "cluster_formation.classic_config.nodes.1 = a@b@host",
        "cluster_formation.etcd.endpoints.1 = http://one.etcd:2379",
        "cluster_formation.node_cleanup.interval = 0",
    ],
)
def test_a_mistake_names_the_line(tmp_path, line):
    with pytest.raises(ConfigError, match=r"rabbitmq\.conf line 1: cluster_formation.*: expected"):
        load(line, directory=tmp_path)


@pytest.mark.parametrize("text", ["a@host", "a@127.0.0.1:25673", "a@[::1]:25673", "a@h.org"])
def test_an_address_is_written_as_it_is_read(text):
    assert str(read_node_address(text)) == text
