"""Every rabbitmq.conf that RabbitMQ accepts starts this broker."""

from pathlib import Path

import pytest

from leveret.broker.config import ConfigError, Listener, load_config
from tests.rabbitmq_conf import load

EXAMPLE = r"""
## Networking
listeners.tcp.default = 5672
listeners.tcp.local    = 127.0.0.1:5673
listeners.tcp.local_v6 = ::1:5674
listeners.ssl.default = 5671
num_acceptors.tcp = 10
num_acceptors.ssl = 10
socket_writer.gc_threshold = 1000000000
handshake_timeout = 10000
reverse_dns_lookups = false

## Security, access control
loopback_users.guest = false
ssl_options.verify               = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_options.cacertfile           = /etc/tls/authority.pem
ssl_options.certfile             = /etc/tls/server.pem
ssl_options.keyfile              = /etc/tls/server.key
ssl_options.honor_cipher_order   = true
ssl_options.honor_ecc_order      = true
ssl_options.client_renegotiation = false
ssl_options.secure_renegotiate   = true
ssl_options.versions.1 = tlsv1.3
ssl_options.versions.2 = tlsv1.2
ssl_options.ciphers.1  = TLS_AES_256_GCM_SHA384
ssl_options.bypass_pem_cache = true
auth_backends.1   = rabbit_auth_backend_internal
auth_backends.2.authn = rabbit_auth_backend_ldap
auth_backends.2.authz = rabbit_auth_backend_internal
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
ssl_cert_login_from   = common_name
ssl_handshake_timeout = 5000
load_definitions = /etc/rabbitmq/definitions.json
password_hashing_module = rabbit_password_hashing_sha256

## Default user and virtual host
default_vhost = /
default_user = guest
default_pass = guest
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
default_user_tags.administrator = true
default_user_tags.management = true
default_user_tags.custom_tag = true

## Protocol and sockets
heartbeat = 60
frame_max = 131072
initial_frame_max = 4096
channel_max = 128
tcp_listen_options.backlog = 128
tcp_listen_options.nodelay = true
tcp_listen_options.exit_on_close = false
tcp_listen_options.keepalive = true
tcp_listen_options.send_timeout = 15000
tcp_listen_options.buffer = 262144
tcp_listen_options.sndbuf = 262144
tcp_listen_options.recbuf = 262144
tcp_listen_options.linger.on = true
tcp_listen_options.linger.timeout = 0

## Resource limits
vm_memory_high_watermark.relative = 0.4
vm_memory_high_watermark.absolute = 2GB
vm_memory_high_watermark_paging_ratio = 0.5
vm_memory_calculation_strategy = rss
memory_monitor_interval = 2500
total_memory_available_override_value = 2GB
disk_free_limit.absolute = 5GB
connection_max = infinity
channel_max_per_node = infinity
consumer_max_per_channel = infinity
max_message_size = 134217728

## Clustering
cluster_name = leporids
queue_leader_locator = balanced
cluster_partition_handling = pause_if_all_down
cluster_partition_handling.pause_if_all_down.recover = ignore
cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit@one
cluster_partition_handling.pause_if_all_down.nodes.2 = rabbit@two
cluster_formation.peer_discovery_backend     = rabbit_peer_discovery_classic_config
cluster_formation.classic_config.nodes.1 = rabbit@one
cluster_formation.classic_config.nodes.2 = rabbit@two
cluster_formation.dns.hostname = nodes.example.org
cluster_formation.node_type = disc
cluster_keepalive_interval = 10000

## Statistics, Raft, and the rest of the core
collect_statistics = coarse
collect_statistics_interval = 5000
raft.segment_max_entries = 65536
raft.wal_max_size_bytes = 1048576
raft.wal_max_batch_size = 4096
raft.snapshot_chunk_size = 1000000
deprecated_features.permit.transient_nonexcl_queues = true
deprecated_features.permit.management_metrics_collection = false
mnesia_table_loading_retry_timeout = 30000
mnesia_table_loading_retry_limit = 10
queue_index_embed_msgs_below = 4kb
background_gc_enabled = false
background_gc_target_interval = 60000
proxy_protocol = false
product.name = RabbitMQ
product.version = 1.2.3
motd_file = /etc/rabbitmq/motd
consumer_timeout = 600000
net_ticktime = 60
distribution.listener.port_range.min = 25672
distribution.listener.port_range.max = 25672

## Management
management.http_log_dir = /var/log/rabbitmq/http
management.tcp.port = 15672
management.tcp.ip   = 0.0.0.0
management.tcp.shutdown_timeout   = 7000
management.tcp.max_keepalive      = 120
management.tcp.idle_timeout       = 120
management.tcp.inactivity_timeout = 120
management.tcp.request_timeout    = 120
management.tcp.compress           = true
management.ssl.port       = 15671
management.ssl.cacertfile = /etc/tls/authority.pem
management.ssl.certfile   = /etc/tls/server.pem
management.ssl.keyfile    = /etc/tls/server.key
management.ssl.honor_cipher_order   = true
management.ssl.honor_ecc_order      = true
management.ssl.client_renegotiation = false
management.ssl.secure_renegotiate   = true
management.ssl.versions.1 = tlsv1.2
management.ssl.ciphers.1 = ECDHE-ECDSA-AES256-GCM-SHA384
management.path_prefix = /rabbit
management.rates_mode = basic
management.sample_retention_policies.global.minute    = 5
management.sample_retention_policies.global.hour  = 60
management.sample_retention_policies.global.day = 1200
management.sample_retention_policies.basic.minute   = 5
management.sample_retention_policies.detailed.10 = 5
prometheus.tcp.port = 15692
prometheus.path = /metrics
prometheus.return_per_object_metrics = true

## STOMP, MQTT, streams, AMQP 1.0
stomp.listeners.tcp.1 = 127.0.0.1:61613
stomp.listeners.tcp.2 = ::1:61613
stomp.listeners.ssl.default = 61614
stomp.tcp_listen_options.backlog   = 2048
stomp.tcp_listen_options.keepalive = true
stomp.tcp_listen_options.exit_on_close = true
stomp.tcp_listen_options.send_timeout  = 120000
stomp.num_acceptors.tcp = 10
stomp.ssl_cert_login = true
stomp.default_user = guest
stomp.default_pass = guest
stomp.implicit_connect = true
stomp.proxy_protocol = false
mqtt.listeners.tcp.1 = 127.0.0.1:1883
mqtt.listeners.ssl.default = 8883
mqtt.tcp_listen_options.recbuf  = 131072
mqtt.tcp_listen_options.sndbuf  = 131072
mqtt.num_acceptors.ssl = 10
mqtt.proxy_protocol = false
mqtt.default_user = guest
mqtt.default_pass = guest
mqtt.allow_anonymous = true
mqtt.vhost = /
mqtt.exchange = amq.topic
mqtt.max_session_expiry_interval_seconds = 1800
mqtt.prefetch = 10
mqtt.durable_queue_type = classic
web_mqtt.tcp.port = 15675
web_stomp.tcp.port = 15674
stream.listeners.tcp.default = 5552
stream.advertised_host = one.example.org
amqp1_0.default_user = guest
amqp1_0.protocol_strict_mode = false

## Logging
log.dir = /var/log/rabbitmq
log.file = rabbit.log
log.file.level = info
log.file.rotation.date = $D0
log.file.rotation.count = 5
log.file.rotation.compress = true
log.console = false
log.console.level = info
log.console.formatter = json
log.exchange = false
log.exchange.level = info
log.syslog = true
log.syslog.transport = tls
log.syslog.ssl_options.cacertfile = /etc/tls/authority.pem
log.default.level = info
log.connection.level = debug
log.channel.level = warning
log.queue.level = error
log.mirroring.level = critical
log.federation.level = none

## LDAP, HTTP and OAuth 2
auth_ldap.servers.1 = ldap1.example.org
auth_ldap.servers.2 = ldap2.example.org
auth_ldap.use_ssl = false
auth_ldap.port = 389
auth_ldap.timeout = infinity
auth_ldap.log = network
auth_ldap.ssl_options.cacertfile = /etc/tls/authority.pem
auth_ldap.ssl_options.sni = ldap.example.org
auth_ldap.ssl_options.hostname_verification = wildcard
auth_ldap.user_dn_pattern = uid=${username},ou=staff,dc=example,dc=org
auth_ldap.dn_lookup_attribute = uid
auth_ldap.dn_lookup_base      = dc=example,dc=org
auth_ldap.other_bind = as_user
auth_ldap.other_bind.user_dn  = cn=broker,dc=example,dc=org
auth_ldap.other_bind.password = 'a # b'
auth_http.http_method   = post
auth_http.user_path     = https://access.example.org/user
auth_http.vhost_path    = https://access.example.org/vhost
auth_oauth2.resource_server_id = broker
auth_oauth2.jwks_url = https://login.example.org/keys
auth_oauth2.signing_keys.id1 = /etc/tls/token.pem
"""


def test_a_rabbitmq_conf_with_every_documented_key_starts_us(tmp_path: Path) -> None:
    config = load(EXAMPLE, directory=tmp_path)
    assert config.tcp.listeners == (
        Listener(None, 5672),
        Listener("127.0.0.1", 5673),
        Listener("::1", 5674),
    )
    assert config.loopback_users == ()
    assert config.authentication.mechanisms == ("PLAIN", "AMQPLAIN", "EXTERNAL")
    assert config.default_user_tags == ("administrator", "management", "custom_tag")
    assert config.tcp.send_buffer_bytes == 262_144
    assert config.memory.high_watermark_bytes == 2_000_000_000
    assert config.disk.free_limit_bytes == 5_000_000_000
    assert config.queue_index_embed_below_bytes == 4096
    assert config.consumer_timeout_ms == 600_000
    assert config.definitions_file == Path("/etc/rabbitmq/definitions.json")
    ignored = {setting.key for setting in config.settings_without_effect}
    assert [node.name for node in config.cluster_formation.nodes] == ["rabbit@one", "rabbit@two"]
    assert "auth_ldap.ssl_options.hostname_verification" in ignored


def test_the_files_of_the_docker_image_start_us(tmp_path: Path) -> None:
    config = load("loopback_users.guest = false\n\nlog.console = true\n", directory=tmp_path)
    assert config.loopback_users == ()
    assert config.log.console
    assert config.settings_without_effect == ()


@pytest.mark.parametrize("line", ["[", "{rabbit, [", "% RabbitMQ's other file", "]."])
def test_erlang_terms_are_recognised(tmp_path, line):
    file = tmp_path / "advanced.config"
    file.write_text(f"{line}\n")
    with pytest.raises(ConfigError, match="line 1: .*this looks like an advanced.config"):
        load_config(file, {}, {})
