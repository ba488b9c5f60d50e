"""Files as projects have them start a node: the shapes that charts, operators and images write."""

from pathlib import Path

import pytest

from leveret.broker.config import ConfigError
from tests.rabbitmq_conf import load

OF_A_CHART = """
default_user=hare
default_pass=$(BROKER_PASSWORD)
cluster_formation.peer_discovery_backend  = rabbit_peer_discovery_k8s
cluster_formation.k8s.host = kubernetes.default.svc.cluster.local
cluster_formation.node_cleanup.only_log_warning = true
cluster_partition_handling = autoheal
queue_master_locator=min-masters
loopback_users.guest = false
listeners.tcp = none
listeners.ssl.default = 5671
ssl_options.versions.1 = tlsv1.2
ssl_options.versions.2 = tlsv1.1
vm_memory_high_watermark.absolute = 450Mi
"""
OF_AN_OPERATOR = """
compat = 4.x
cluster_formation.k8s.ordinal_start = 0
cluster_formation.registration.enabled = false
deprecated_features.permit.transient_nonexcl_queues = true
quorum_queue.initial_cluster_size = 3
anonymous_login_user = none
disk_free_limit.absolute = 2G
total_memory_available_override_value = 1717986919
"""
OF_AN_IMAGE = """
loopback_users = none
log.console = true
log.console.level = warning
log.file = false
mqtt.allow_anonymous = false
stream.advertised_host = broker
vm_memory_high_watermark.relative = 70%
disk_free_limit.absolute = 1TB
max_connections = infinity
"""


def ignored(config):
    return [one.key for one in config.settings_without_effect]


def test_the_file_of_a_chart(tmp_path):
    config = load(OF_A_CHART, {"BROKER_PASSWORD": "p"}, directory=tmp_path)
    assert (config.default_user, config.default_pass) == ("hare", "p")
    assert config.memory.high_watermark_bytes == 450 * 1024**2
    assert config.tls.options.versions == ("tlsv1.2",)
    assert ignored(config) == ["ssl_options.versions.2"]


def test_the_file_of_an_operator(tmp_path):
    config = load(OF_AN_OPERATOR, {"BROKER_PASSWORD": "p"}, directory=tmp_path)
    assert config.disk.free_limit_bytes == 2_000_000_000
    assert ignored(config) == [
        "cluster_formation.k8s.ordinal_start",
        "cluster_formation.registration.enabled",
        "deprecated_features.permit.transient_nonexcl_queues",
        "quorum_queue.initial_cluster_size",
        "anonymous_login_user",
    ]


def test_the_file_of_an_image(tmp_path):
    config = load(OF_AN_IMAGE, {"BROKER_PASSWORD": "p"}, directory=tmp_path)
    assert config.disk.free_limit_bytes == 10**12
    assert config.connection_max is None
    assert not config.mqtt.allow_anonymous
    assert ignored(config) == []


@pytest.mark.parametrize(
    "line",
    ["vm_memory_high_watermark.absolute = 1.6GB", "username: hare", "heartbeat = 60s",
     "default_pass =", "; a comment"],
)  # fmt: skip
def test_what_rabbitmq_refuses_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match="rabbitmq.conf line 1: "):
        load(line, {"BROKER_PASSWORD": "p"}, directory=tmp_path)
