"""The settings of MQTT that differ between versions of RabbitMQ."""

import pytest

from leveret.broker.config import ConfigError
from tests.rabbitmq_conf import load


def test_the_time_to_live_of_subscriptions_is_a_setting_of_3_12(tmp_path):
    assert (
        load("mqtt.subscription_ttl = 60000", directory=tmp_path).mqtt.subscription_ttl_ms == 60_000
    )
    with pytest.raises(ConfigError, match="max_session_expiry_interval_seconds, in seconds"):
        load("compat = 4.x\nmqtt.subscription_ttl = 60000", directory=tmp_path)


def test_a_session_may_never_expire(tmp_path):
    text = "mqtt.max_session_expiry_interval_seconds = infinity"
    assert load(text, directory=tmp_path).mqtt.max_session_expiry_s is None
    assert load("", directory=tmp_path).mqtt.max_session_expiry_s == 86_400


def test_the_plugin_opens_the_usual_port(tmp_path):
    assert load("", directory=tmp_path).mqtt.listeners == ()
    (tmp_path / "enabled_plugins").write_text("[rabbitmq_mqtt].")
    assert [one.port for one in load("", directory=tmp_path).mqtt.listeners] == [1883]
