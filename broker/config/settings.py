"""The settings of a broker: `Config`, with a section for each part of the broker that has many.

A `Config` is plain, typed and frozen: `Config()` has the defaults, which are those of RabbitMQ
3.13, and `dataclasses.replace` changes a copy. `leveret.broker.config.load_config` makes the
configuration of a server. Keys are RabbitMQ's, so that a rabbitmq.conf works unchanged. RabbitMQ's
other keys are in `rabbitmq_keys`; `settings_without_effect` lists those that a file uses.
"""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from leveret.broker.config.advanced import Advanced
from leveret.broker.config.amqp10_settings import Amqp10Settings
from leveret.broker.config.authentication_settings import (
    AuthenticationSettings,
    CacheSettings,
    HttpSettings,
)
from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.config.declaration import (
    Setting,
    flag_setting,
    marked_setting,
    section,
    setting,
    settings_of,
)
from leveret.broker.config.formation_settings import FormationSettings
from leveret.broker.config.interceptor_settings import InterceptorSettings
from leveret.broker.config.ldap_settings import LdapSettings
from leveret.broker.config.log_settings import LogSettings
from leveret.broker.config.management_settings import ManagementSettings, PrometheusSettings
from leveret.broker.config.mqtt_settings import MqttSettings
from leveret.broker.config.oauth2_settings import OAuth2Settings
from leveret.broker.config.plugins import PLUGINS
from leveret.broker.config.resource_settings import DiskSettings, MemorySettings
from leveret.broker.config.retained_settings import RetainedSettings
from leveret.broker.config.stomp_settings import StompSettings
from leveret.broker.config.stream_settings import StreamSettings
from leveret.broker.config.tcp_settings import TcpSettings
from leveret.broker.config.tls_settings import TlsSettings
from leveret.broker.config.tracing_settings import TracingSettings
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    MILLISECONDS,
    NAME,
    PATH,
    PORT,
    TEXT,
    Kind,
    binary_size,
    either,
    one_of,
    size,
    unless,
    whole_number,
)
from leveret.broker.config.web_socket_settings import WebSocketSettings, WebStompSettings

Section = TypeVar("Section")

FRAME_BYTES_MIN = 4096
"""AMQP 0-9-1, connection.tune: a peer must accept frames of this size."""
UINT16_MAX = 65_535
"""Heartbeat intervals and channel numbers have two bytes on the wire."""
MESSAGE_BYTES_MAX = 536_870_912
"""RabbitMQ's hard limit, whatever is configured."""

COUNT = unless(whole_number(), "infinity")


class IgnoredSetting(NamedTuple):
    """A setting, or a value of one, that RabbitMQ has and that has no effect here."""

    key: str
    place: str
    reason: str = "has no effect"


def complete_node_name(name: str) -> str:
    """Add the short name of this host to a node name without a host. Raises ValueError."""
    node, _, host = name.partition("@")
    if not node or host.count("@") or " " in name:
        raise ValueError
    return f"{node}@{host or socket.gethostname().partition('.')[0]}"


@dataclass(frozen=True)
class Config:
    """All settings. None is no limit, disabled or not set: see the setting's description."""

    # The node
    node_name: str = setting(
        "node_name",
        Kind("a name such as leveret or leveret@host", complete_node_name),
        complete_node_name("leveret"),
        "The node's name; without `@host` the short name of this host is added.",
        default_text="leveret@ and the short host name",
        flag="node",
    )
    data_dir: Path = setting(
        "data_dir",
        PATH,
        Path("data"),
        "The directory for messages, definitions and users.",
        default_text="./data",
        flag="data_dir",
    )
    cluster_name: str | None = setting(
        "cluster_name",
        NAME,
        None,
        "The name of the cluster that clients and the management pages show.",
        default_text="the node's name",
    )
    definitions_file: Path | None = setting(
        "load_definitions definitions.local.path management.load_definitions",
        PATH,
        None,
        "A file of definitions, as exported by the management API, to import at startup.",
    )
    plugins: tuple[str, ...] | None = setting(
        "",
        PLUGINS,
        None,
        "The plugins to enable, in place of those that the file `enabled_plugins` lists.",
        default_text="those that have a listener",
        flag="plugins",
    )
    # The protocol
    handshake_timeout_ms: int | None = setting(
        "handshake_timeout",
        unless(MILLISECONDS, "infinity"),
        10_000,
        "How long a client may take from the TCP connection to connection.open.",
    )
    heartbeat_s: int = setting(
        "heartbeat",
        whole_number("seconds", maximum=UINT16_MAX),
        60,
        "The heartbeat interval that clients are offered; 0 disables heartbeats.",
    )
    frame_max_bytes: int = setting(
        "frame_max",
        either(binary_size(minimum=FRAME_BYTES_MIN), 0),
        131_072,
        "The frame size limit that clients are offered; 0 is no limit.",
    )
    initial_frame_max_bytes: int = setting(
        "initial_frame_max",
        binary_size(minimum=FRAME_BYTES_MIN),
        FRAME_BYTES_MIN,
        "The frame size limit until one is negotiated.",
    )
    channel_max: int = setting(
        "channel_max max_channels_per_connection",
        whole_number("channels", maximum=UINT16_MAX),
        2047,
        "How many channels a connection may have; 0 is no limit.",
    )
    max_message_size_bytes: int = setting(
        "max_message_size",
        size(minimum=1, maximum=MESSAGE_BYTES_MAX),
        134_217_728,
        "The largest message body that is accepted.",
    )
    consumer_timeout_ms: int | None = setting(
        "consumer_timeout",
        unless(MILLISECONDS, "undefined", "none", "false", "infinity"),
        1_800_000,
        "How long a consumer may keep a delivery unacknowledged before its channel is closed.",
    )
    consumer_timeout_action: str = setting(
        "consumer_timeout_action",
        one_of("", "close_channel", "cancel_consumer"),
        "",
        "What happens to a consumer that keeps a delivery for too long: its channel is closed, or "
        "only the consumer is cancelled and its messages go back to the queue.",
        default_text="close_channel; cancel_consumer with `compat = 4.x`, for quorum queues",
    )
    dead_letter_worker_consumer_prefetch: int = setting(
        "dead_letter_worker_consumer_prefetch",
        whole_number("dead letters", minimum=1, maximum=10_000),
        32,
        "How many dead letters of a quorum queue with the strategy at-least-once may be published "
        "and not confirmed.",
    )
    dead_letter_worker_retry_ms: int = setting(
        "dead_letter_worker_publisher_confirm_timeout",
        MILLISECONDS,
        180_000,
        "How long until a dead letter that was refused or not routed is published again.",
    )
    relaxes_redeclaration: bool = setting(
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
        BOOLEAN,
        False,
        "Whether a quorum queue may be declared again without its type, or as a classic queue.",
    )
    declares_local_random: bool = setting(
        "exchange_types.local_random.enabled",
        BOOLEAN,
        True,
        "Whether exchanges of the type `x-local-random` can be declared. Existing ones go on.",
    )
    takes_over_exclusive_queues: bool = setting(
        "exclusive_queue_takeover",
        BOOLEAN,
        False,
        "Whether a client that declares an exclusive queue of another connection of its user gets "
        "it if the machine of that connection acknowledges nothing for a second. Otherwise it gets "
        "405, as from RabbitMQ, until the heartbeats of the old connection time out.",
    )
    expires_on_time: bool = setting(
        "queue_expire_on_time",
        BOOLEAN,
        False,
        "Whether messages whose time to live is over leave their queue at once, wherever they are "
        "in it, if the queue and its policies do not say. Otherwise they leave it when they reach "
        "its head, as in RabbitMQ.",
    )
    channel_operation_timeout_ms: int = setting(
        "channel_operation_timeout",
        MILLISECONDS,
        15_000,
        "How long a client's method may wait for an authentication backend or for another node "
        "before its channel is closed. A method that waits for the leader of a quorum queue or of "
        "a stream is refused after two thirds of this time.",
    )

    # Limits
    connection_max: int | None = setting(
        "connection_max max_connections",
        COUNT,
        None,
        "How many connections this node accepts.",
        default_text="infinity",
    )
    channel_max_per_node: int | None = setting(
        "channel_max_per_node",
        COUNT,
        None,
        "How many channels this node's connections may have together.",
        default_text="infinity",
    )
    consumer_max_per_channel: int | None = setting(
        "consumer_max_per_channel",
        COUNT,
        None,
        "How many consumers a channel may have.",
        default_text="infinity",
    )

    # Users
    default_user: str = setting(
        "default_user",
        NAME,
        "guest",
        "The user that is created when a node starts for the first time.",
    )
    default_pass: str = setting(
        "default_pass", TEXT, "guest", "The password of that user.", is_secret=True
    )
    default_vhost: str = setting(
        "default_vhost",
        NAME,
        "/",
        "The virtual host that is created when a node starts for the first time.",
    )
    event_exchange_vhost: str | None = setting(
        "event_exchange.vhost",
        NAME,
        None,
        "Publish events to the topic exchange amq.rabbitmq.event of this virtual host.",
    )
    default_user_tags: tuple[str, ...] = marked_setting(
        "default_user_tags.$tag", ("administrator",), "The tags of the default user."
    )
    default_permissions_configure: str = setting(
        "default_permissions.configure",
        TEXT,
        ".*",
        "A regular expression for what the default user may declare and delete.",
    )
    default_permissions_write: str = setting(
        "default_permissions.write",
        TEXT,
        ".*",
        "A regular expression for what the default user may publish to.",
    )
    default_permissions_read: str = setting(
        "default_permissions.read",
        TEXT,
        ".*",
        "A regular expression for what the default user may consume from.",
    )
    loopback_users: tuple[str, ...] = marked_setting(
        "loopback_users.$user",
        ("guest",),
        "Users who can log in from the node's own host only.",
    )

    # Publishers
    publisher_blocked_timeout_ms: int | None = setting(
        "publisher_blocked_timeout",
        unless(MILLISECONDS, "infinity"),
        None,
        "How long an alarm may block a publisher. After that its messages are refused: with "
        "basic.nack if the channel uses confirms, otherwise by closing the channel.",
        default_text="infinity",
    )
    compat: str = setting(
        "compat",
        one_of("3.12", "4.0", "4.x"),
        "3.12",
        "The RabbitMQ version to behave like, where 3.12, 4.0 and 4.3 (4.x) differ: the version "
        "that clients see, the smallest frame_max, the x-last-death headers, whether death headers "
        "that clients send are kept, sizes such as 2G, which keys are known, and the rules of "
        "quorum queues. All nodes of a cluster need the same value.",
    )

    # The store
    queue_index_embed_below_bytes: int = setting(
        "queue_index_embed_msgs_below",
        binary_size(),
        4096,
        "Messages smaller than this are stored in the queue's index, larger ones in the message "
        "store.",
    )
    message_log_file_bytes: int = setting(
        "msg_log_file_size_limit",
        size(minimum=65_536),
        32 * 1024 * 1024,
        "The size at which a file of the write-ahead log is full and the next one is started.",
        default_text="32MiB",
    )

    # Statistics
    collect_statistics_interval_ms: int = setting(
        "collect_statistics_interval",
        MILLISECONDS,
        5000,
        "How often message rates are sampled.",
    )

    # Sections
    tcp: TcpSettings = section(TcpSettings)
    tls: TlsSettings = section(TlsSettings)
    authentication: AuthenticationSettings = section(AuthenticationSettings)
    auth_cache: CacheSettings = section(CacheSettings)
    auth_http: HttpSettings = section(HttpSettings)
    ldap: LdapSettings = section(LdapSettings)
    oauth2: OAuth2Settings = section(OAuth2Settings)
    memory: MemorySettings = section(MemorySettings)
    disk: DiskSettings = section(DiskSettings)
    management: ManagementSettings = section(ManagementSettings)
    prometheus: PrometheusSettings = section(PrometheusSettings)
    stomp: StompSettings = section(StompSettings)
    stream: StreamSettings = section(StreamSettings)
    retained: RetainedSettings = section(RetainedSettings)
    mqtt: MqttSettings = section(MqttSettings)
    amqp10: Amqp10Settings = section(Amqp10Settings)
    web_mqtt: WebSocketSettings = section(WebSocketSettings, "web_mqtt")
    web_stomp: WebStompSettings = section(WebStompSettings, "web_stomp", described_as="web_mqtt")
    interceptors: InterceptorSettings = section(InterceptorSettings)
    log: LogSettings = section(LogSettings)
    tracing: TracingSettings = section(TracingSettings)
    cluster: ClusterSettings = section(ClusterSettings)
    cluster_formation: FormationSettings = section(FormationSettings)

    settings_without_effect: tuple[IgnoredSetting, ...] = ()
    advanced: Advanced = field(default_factory=Advanced)
    extensions: tuple[object, ...] = ()
    """The sections of installed packages, if a setting of a package was given."""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The origin of each given setting, by attribute: a line of a file, a variable."""
    plugins_file: Path | None = field(default=None, compare=False)
    """The file `enabled_plugins`, which need not exist; None without one."""
    bind: str | None = None
    """The interface that replaces the hosts of all listeners."""

    @property
    def is_as_rabbitmq_4(self) -> bool:
        """Whether the node behaves like RabbitMQ 4 where that differs from 3.12."""
        return self.compat != "3.12"

    @property
    def is_as_rabbitmq_4_3(self) -> bool:
        """Whether it behaves like RabbitMQ 4.3 where that differs from 4.0."""
        return self.compat == "4.x"

    @property
    def cancels_timed_out_consumers(self) -> bool:
        """Whether a consumer that keeps a delivery for too long is cancelled, and not its channel
        closed.
        """
        action = self.consumer_timeout_action
        return action == "cancel_consumer" or (not action and self.is_as_rabbitmq_4_3)

    def extension(self, section: type[Section]) -> Section:
        """The section of an installed package: the given settings, or the defaults."""
        given = (one for one in self.extensions if isinstance(one, section))
        return next(given, None) or section()

    def shown(self) -> Iterator[tuple[Setting, object]]:
        """Every setting with its value, except secrets."""
        for settings in (self, *self.extensions):
            for declared in settings_of(type(settings)):
                if not declared.is_secret:
                    yield declared, attrgetter(declared.attribute)(settings)


BIND = flag_setting(
    "bind",
    HOST,
    "all interfaces",
    "The interface to listen on: replaces the hosts of all listeners, including management.",
)
PORT_OF_ALL = flag_setting(
    "port",
    PORT,
    "5672",
    "The only port for AMQP clients: replaces all listeners.tcp; 0 disables AMQP.",
)
SETTINGS = (*settings_of(Config), BIND, PORT_OF_ALL)
