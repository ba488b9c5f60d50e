"""Which plugins of RabbitMQ a node stands for, as scripts look for them."""

from dataclasses import replace

from leveret.broker.config import Config, ManagementSettings, PrometheusSettings
from leveret.broker.config.authentication_settings import AuthenticationSettings, CacheSettings
from leveret.mgmt.views.plugins import plugins

NO_PORTS = Config(
    management=ManagementSettings(port=0, tls_port=0), prometheus=PrometheusSettings(port=0)
)


def test_built_in_plugins_are_named_without_any_setting():
    assert {
        "rabbitmq_shovel", "rabbitmq_federation", "rabbitmq_consistent_hash_exchange",
        "rabbitmq_delayed_message_exchange", "rabbitmq_sharding", "rabbitmq_tracing",
        "rabbitmq_management", "rabbitmq_shovel_management", "rabbitmq_prometheus",
    } < set(plugins(Config()))  # fmt: skip


def test_what_settings_turn_off_is_not_named():
    found = plugins(NO_PORTS)
    assert not [name for name in found if "management" in name or "prometheus" in name]
    assert "rabbitmq_shovel" in found


def test_what_settings_turn_on_is_named():
    before = plugins(NO_PORTS)
    changed = replace(
        NO_PORTS,
        event_exchange_vhost="/",
        authentication=AuthenticationSettings(
            mechanisms=("PLAIN", "EXTERNAL"),
            backends=(("1", "rabbit_auth_backend_ldap"), ("2", "cache")),
        ),
        auth_cache=CacheSettings(backend="http"),
    )
    assert sorted(set(plugins(changed)) - set(before)) == [
        "rabbitmq_auth_backend_cache", "rabbitmq_auth_backend_http", "rabbitmq_auth_backend_ldap",
        "rabbitmq_auth_mechanism_ssl", "rabbitmq_event_exchange",
    ]  # fmt: skip
