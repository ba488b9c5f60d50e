"""The settings of a broker: `Config`, one declaration a setting.

A `Config` is plain, typed and frozen: `Config()` has the defaults, which are those of RabbitMQ
3.13, and `dataclasses.replace` makes another. Who starts a server gets one from
`broker.config.load_config`. Keys are RabbitMQ's, so that a rabbitmq.conf works as it is; those of
its keys that are not here are in `rabbitmq_keys`, and a file that uses one has it listed in
`settings_without_effect`.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from broker.config.authentication_settings import AuthenticationSettings
from broker.config.declaration import (
    Setting,
    flag_setting,
    listed_setting,
    marked_setting,
    setting,
    settings_of,
)
from broker.config.management_settings import ManagementSettings
from broker.config.tls_settings import TlsSettings
from broker.config.tracing_settings import TracingSettings
from broker.config.values import (
    BOOLEAN,
    HOST,
    LISTENER,
    MILLISECONDS,
    NAME,
    PATH,
    PORT,
    TEXT,
    Kind,
    Listener,
    binary_size,
    either,
    fraction,
    one_of,
    size,
    unless,
    whole_number,
)

FRAME_BYTES_MIN = 4096
"""AMQP 0-9-1, connection.tune: a peer must accept frames of this size."""
UINT16_MAX = 65_535
"""Heartbeats and channel numbers are two bytes on the wire."""
MESSAGE_BYTES_MAX = 536_870_912
"""RabbitMQ's hard limit, whatever is configured."""

LEVEL_WORDS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = one_of(*LEVEL_WORDS, "none")
LEVEL_OR_DEFAULT: Kind[str | None] = LEVEL
COUNT = unless(whole_number(), "infinity")
BUFFER_BYTES: Kind[int | None] = whole_number("bytes", minimum=1)


class IgnoredSetting(NamedTuple):
    """A setting in a file that RabbitMQ knows and that does nothing here."""

    key: str
    file: str
    line: int


def complete_node_name(name: str) -> str:
    """A node's name with the short name of this host, if it names no host."""
    node, _, host = name.partition("@")
    if not node or host.count("@") or " " in name:
        raise ValueError
    return f"{node}@{host or socket.gethostname().partition('.')[0]}"


@dataclass(frozen=True)
class Config(TlsSettings, AuthenticationSettings, ManagementSettings, TracingSettings):
    """All settings. None: no limit, switched off, or not set; the setting's sentence says which.

    Where a linter takes `setting` for a call whose result all instances share, it is told to look
    away: what it makes is a dataclass field, and the defaults, paths among them, are immutable.
    """

    # The node
    node_name: str = setting(
        "node_name",
        Kind("a name such as leveret or leveret@host", complete_node_name),
        complete_node_name("leveret"),
        "The node's name; without `@host` the short name of this host is added.",
        default_text="leveret@ and the short host name",
        flag="node",
    )
    data_dir: Path = setting(  # noqa: RUF009
        "data_dir",
        PATH,
        Path("data"),
        "The directory for all that is kept: messages, queues, users.",
        default_text="./data",
        flag="data_dir",
    )
    cluster_name: str | None = setting(
        "cluster_name",
        NAME,
        None,
        "What clients and the management pages call this cluster.",
        default_text="the node's name",
    )
    definitions_file: Path | None = setting(  # noqa: RUF009
        "load_definitions definitions.local.path management.load_definitions",
        PATH,
        None,
        "A file of definitions, as exported by the management API, that is loaded at the start.",
    )

    # Listeners and sockets
    tcp_listeners: tuple[Listener, ...] = listed_setting(
        "listeners.tcp.$name",
        LISTENER,
        (Listener(None, 5672),),
        "Where AMQP clients connect: a port, on all interfaces, or host:port.",
        default_text="5672",
    )
    tcp_backlog: int = setting(
        "tcp_listen_options.backlog",
        whole_number("connections", minimum=1),
        128,
        "How many connections may wait to be accepted.",
    )
    tcp_nodelay: bool = setting(
        "tcp_listen_options.nodelay",
        BOOLEAN,
        True,
        "Send small packets at once, without Nagle's algorithm.",
    )
    tcp_keepalive: bool = setting(
        "tcp_listen_options.keepalive",
        BOOLEAN,
        False,
        "Have the operating system probe idle connections.",
    )
    # RabbitMQ lingers for 0 seconds, and flushes what it has first. A plain socket that does so
    # resets the connection and drops the last frames, connection.close-ok among them.
    tcp_linger: bool = setting(
        "tcp_listen_options.linger.on",
        BOOLEAN,
        False,
        "Wait when a socket is closed until what was written has been sent.",
    )
    tcp_linger_timeout_s: int = setting(
        "tcp_listen_options.linger.timeout",
        whole_number("seconds"),
        0,
        "How long to wait then; 0 resets the connection.",
    )
    tcp_send_buffer_bytes: int | None = setting(
        "tcp_listen_options.sndbuf",
        BUFFER_BYTES,
        None,
        "The size of a socket's send buffer.",
        default_text="the system's",
    )
    tcp_receive_buffer_bytes: int | None = setting(
        "tcp_listen_options.recbuf",
        BUFFER_BYTES,
        None,
        "The size of a socket's receive buffer.",
        default_text="the system's",
    )
    reverse_dns_lookups: bool = setting(
        "reverse_dns_lookups",
        BOOLEAN,
        False,
        "Show clients by host name rather than by address.",
    )

    # The protocol
    handshake_timeout_ms: int | None = setting(
        "handshake_timeout",
        unless(MILLISECONDS, "infinity"),
        10_000,
        "How long a client may take from connecting to connection.open.",
    )
    heartbeat_s: int = setting(
        "heartbeat",
        whole_number("seconds", maximum=UINT16_MAX),
        60,
        "The heartbeat timeout that clients are offered; 0 offers none.",
    )
    frame_max_bytes: int = setting(
        "frame_max",
        either(binary_size(minimum=FRAME_BYTES_MIN), 0),
        131_072,
        "The largest frame that clients are offered; 0 offers no limit.",
    )
    initial_frame_max_bytes: int = setting(
        "initial_frame_max",
        binary_size(minimum=FRAME_BYTES_MIN),
        FRAME_BYTES_MIN,
        "The largest frame before a limit is agreed on.",
    )
    channel_max: int = setting(
        "channel_max",
        whole_number("channels", maximum=UINT16_MAX),
        2047,
        "How many channels a connection may have; 0 is no limit.",
    )
    max_message_size_bytes: int = setting(
        "max_message_size",
        size(minimum=1, maximum=MESSAGE_BYTES_MAX),
        134_217_728,
        "The largest message that is accepted.",
    )
    consumer_timeout_ms: int | None = setting(
        "consumer_timeout",
        unless(MILLISECONDS, "undefined", "none", "false", "infinity"),
        1_800_000,
        "How long a consumer may keep a delivery unacknowledged before its channel is closed.",
    )

    # Limits
    connection_max: int | None = setting(
        "connection_max",
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
        "The user that a node makes when it starts for the first time.",
    )
    default_pass: str = setting(
        "default_pass", TEXT, "guest", "The password of that user.", is_secret=True
    )
    default_vhost: str = setting(
        "default_vhost",
        NAME,
        "/",
        "The virtual host that a node makes when it starts for the first time.",
    )
    default_user_tags: tuple[str, ...] = marked_setting(
        "default_user_tags.$tag", ("administrator",), "The tags of the default user."
    )
    default_permissions_configure: str = setting(
        "default_permissions.configure",
        TEXT,
        ".*",
        "What the default user may declare and delete: a regular expression.",
    )
    default_permissions_write: str = setting(
        "default_permissions.write", TEXT, ".*", "What the default user may publish to."
    )
    default_permissions_read: str = setting(
        "default_permissions.read", TEXT, ".*", "What the default user may consume from."
    )
    loopback_users: tuple[str, ...] = marked_setting(
        "loopback_users.$user",
        ("guest",),
        "Users who can log in from this host only.",
    )

    auth_failures_per_minute: int | None = setting(
        "auth_failures_per_minute",
        COUNT,
        60,
        "How many failed logins from one address, or one IPv6 network of 64 bits, are looked at; "
        "more are refused unseen.",
    )

    publisher_blocked_timeout_ms: int | None = setting(
        "publisher_blocked_timeout",
        unless(MILLISECONDS, "infinity"),
        None,
        "How long an alarm may hold a publisher up; after that what it publishes is refused, with "
        "basic.nack where it has confirms and by closing its channel where it has none.",
        default_text="infinity",
    )
    compat: str = setting(
        "compat",
        one_of("3.12", "4.x"),
        "3.12",
        "The RabbitMQ that the node is to be taken for where the two differ: in its version, the "
        "least frame_max, the headers of a last death, and whether deaths count that clients tell "
        "of.",
    )

    # Memory and disk. Where there are two ways to state a limit, the number of bytes goes first;
    # of the disk's two, `load_config` leaves one.
    vm_memory_high_watermark_relative: float = setting(
        "vm_memory_high_watermark.relative",
        fraction(),
        0.4,
        "The share of the memory above which publishers are blocked.",
    )
    vm_memory_high_watermark_bytes: int | None = setting(
        "vm_memory_high_watermark.absolute",
        size(),
        None,
        "The same as an amount; goes before the share.",
    )
    vm_memory_high_watermark_paging_ratio: float = setting(
        "vm_memory_high_watermark_paging_ratio",
        fraction(maximum=1),
        0.5,
        "The share of that limit above which queues move messages to disk.",
    )
    vm_memory_calculation_strategy: str = setting(
        "vm_memory_calculation_strategy",
        one_of("rss", "allocated", "erlang", "legacy"),
        "rss",
        "How memory in use is measured; rss: as the operating system counts it.",
    )
    total_memory_bytes: int | None = setting(
        "total_memory_available_override_value",
        size(minimum=1),
        None,
        "The memory that the shares are taken of.",
        default_text="what the machine or the container has",
    )
    memory_monitor_interval_ms: int = setting(
        "memory_monitor_interval",
        MILLISECONDS,
        2500,
        "How often memory in use is compared with its limit.",
    )
    disk_free_limit_bytes: int | None = setting(
        "disk_free_limit.absolute",
        size(),
        50_000_000,
        "The free space on the data directory's disk below which publishers are blocked.",
        default_text="50MB",
    )
    disk_free_limit_relative: float | None = setting(
        "disk_free_limit.relative",
        fraction(),
        None,
        "The same as a multiple of the memory.",
    )
    queue_index_embed_below_bytes: int = setting(
        "queue_index_embed_msgs_below",
        binary_size(),
        4096,
        "Smaller messages are stored in their queue's index, larger ones apart.",
    )
    message_log_file_bytes: int = setting(
        "msg_log_file_size_limit",
        size(minimum=65_536),
        32 * 1024 * 1024,
        "How large a file of the write-ahead log gets before the next one is begun.",
        default_text="32MiB",
    )

    # Statistics
    collect_statistics: str = setting(
        "collect_statistics",
        one_of("none", "coarse", "fine"),
        "fine",
        "How much is counted. RabbitMQ's management plugin, too, makes it fine.",
    )
    collect_statistics_interval_ms: int = setting(
        "collect_statistics_interval",
        MILLISECONDS,
        5000,
        "How often rates are computed from the counts.",
    )

    # Logs
    log_default_level: str = setting(
        "log.default.level", LEVEL, "info", "What is logged, where nothing else is said."
    )
    log_connection_level: str | None = setting(
        "log.connection.level",
        LEVEL_OR_DEFAULT,
        None,
        "What is logged about connections.",
        default_text="log.default.level",
    )
    log_channel_level: str | None = setting(
        "log.channel.level",
        LEVEL_OR_DEFAULT,
        None,
        "What is logged about channels.",
        default_text="log.default.level",
    )
    log_queue_level: str | None = setting(
        "log.queue.level",
        LEVEL_OR_DEFAULT,
        None,
        "What is logged about queues.",
        default_text="log.default.level",
    )
    log_console: bool = setting("log.console", BOOLEAN, True, "Log to the standard output.")
    log_console_level: str | None = setting(
        "log.console.level",
        LEVEL_OR_DEFAULT,
        None,
        "The least important messages to go there.",
        default_text="log.default.level",
    )
    log_file: str | None = setting(
        "log.file",
        unless(NAME, "false"),
        None,
        "Log to this file, in log.dir unless it is a full path.",
        default_text="false",
    )
    log_file_level: str | None = setting(
        "log.file.level",
        LEVEL_OR_DEFAULT,
        None,
        "The least important messages to go there.",
        default_text="log.default.level",
    )
    log_dir: Path | None = setting(  # noqa: RUF009
        "log.dir",
        PATH,
        None,
        "The directory for log files.",
        default_text="log in the data directory",
    )

    settings_without_effect: tuple[IgnoredSetting, ...] = ()

    @property
    def is_as_rabbitmq_4(self) -> bool:
        """The node behaves as RabbitMQ 4 where that differs from 3.12."""
        return self.compat == "4.x"

    def shown(self) -> Iterator[tuple[Setting, object]]:
        """Every setting with its value, but for those that are secret."""
        secret = {declared.name for declared in fields(self) if not declared.repr}
        for declared in settings_of(fields(self)):
            if declared.attribute not in secret:
                yield declared, getattr(self, declared.attribute)


BIND = flag_setting(
    "bind",
    HOST,
    "all interfaces",
    "The one interface to listen on: replaces the hosts of all listeners, management's too.",
)
PORT_OF_ALL = flag_setting(
    "port",
    PORT,
    "5672",
    "The one port for AMQP clients: replaces all listeners.tcp; 0 switches AMQP off.",
)
SETTINGS = (*settings_of(fields(Config)), BIND, PORT_OF_ALL)
