"""The configuration of a broker: `Config` with its sections, and how one is loaded.

Each setting is declared once, as a field of `Config` (`settings`) or of one of its sections
(`tls_settings` and so on). `loader` makes a `Config` of a file (`files`, `parser`), the environment
and the command line; `description` writes the page of documentation. A program that embeds a broker
makes a `Config` itself: `Config(heartbeat_s=10, tcp=TcpSettings(nodelay=False))`.
"""

from leveret.broker.config.amqp10_settings import Amqp10Settings
from leveret.broker.config.authentication_settings import (
    AuthenticationSettings,
    CacheSettings,
    HttpSettings,
)
from leveret.broker.config.cluster_settings import ClusterSettings, LinkTlsOptions
from leveret.broker.config.declaration import Setting
from leveret.broker.config.description import describe_settings
from leveret.broker.config.formation_settings import FormationSettings
from leveret.broker.config.ldap_settings import LdapSettings
from leveret.broker.config.loader import ConfigError, load_config
from leveret.broker.config.log_settings import LogSettings
from leveret.broker.config.management_settings import ManagementSettings, PrometheusSettings
from leveret.broker.config.mqtt_settings import MqttSettings
from leveret.broker.config.oauth2_settings import OAuth2Settings
from leveret.broker.config.resource_settings import DiskSettings, MemorySettings
from leveret.broker.config.setting_error import SettingError, explain, explain_key
from leveret.broker.config.settings import SETTINGS, Config, IgnoredSetting
from leveret.broker.config.stomp_settings import StompSettings
from leveret.broker.config.stream_settings import StreamSettings
from leveret.broker.config.tcp_settings import TcpSettings
from leveret.broker.config.tls_settings import ClientTlsOptions, TlsListenerOptions, TlsSettings
from leveret.broker.config.tracing_settings import TracingSettings
from leveret.broker.config.value_kinds import Listener
from leveret.broker.config.web_socket_settings import WebSocketSettings

__all__ = [
    "SETTINGS",
    "Amqp10Settings",
    "AuthenticationSettings",
    "CacheSettings",
    "ClientTlsOptions",
    "ClusterSettings",
    "Config",
    "ConfigError",
    "DiskSettings",
    "FormationSettings",
    "HttpSettings",
    "IgnoredSetting",
    "LdapSettings",
    "LinkTlsOptions",
    "Listener",
    "LogSettings",
    "ManagementSettings",
    "MemorySettings",
    "MqttSettings",
    "OAuth2Settings",
    "PrometheusSettings",
    "Setting",
    "SettingError",
    "StompSettings",
    "StreamSettings",
    "TcpSettings",
    "TlsListenerOptions",
    "TlsSettings",
    "TracingSettings",
    "WebSocketSettings",
    "describe_settings",
    "explain",
    "explain_key",
    "load_config",
]
