"""The settings of STOMP. Without a listener, and without the plugin, it is off."""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, setting
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    LISTENER,
    MILLISECONDS,
    NAME,
    TEXT,
    Listener,
    binary_size,
)

FRAME_BYTES_MIN = 4096


@dataclass(frozen=True)
class StompSettings:
    """`config.stomp`."""

    listeners: tuple[Listener, ...] = listed_setting(
        "stomp.listeners.tcp.$name",
        LISTENER,
        (),
        "An address for clients of STOMP: a port, on all interfaces, or host:port.",
        default_text="none; 61613 with the plugin rabbitmq_stomp",
    )
    tls_listeners: tuple[Listener, ...] = listed_setting(
        "stomp.listeners.ssl.$name",
        LISTENER,
        (),
        "An address for its clients over TLS, with the certificates of `ssl_options`.",
        default_text="none",
    )
    default_user: str = setting(
        "stomp.default_user",
        NAME,
        "guest",
        "The user of a client whose CONNECT has no header login.",
    )
    default_pass: str = setting(
        "stomp.default_pass",
        TEXT,
        "guest",
        "The password of a client whose CONNECT has no header passcode.",
        is_secret=True,
    )
    default_vhost: str = setting(
        "stomp.default_vhost",
        NAME,
        "/",
        "The virtual host of a client whose CONNECT has no header host.",
    )
    default_topic_exchange: str = setting(
        "stomp.default_topic_exchange",
        NAME,
        "amq.topic",
        "The exchange of destinations that begin with /topic.",
    )
    implicit_connect: bool = setting(
        "stomp.implicit_connect",
        BOOLEAN,
        False,
        "Log in clients that begin without CONNECT as the default user.",
    )
    hide_server_info: bool = setting(
        "stomp.hide_server_info",
        BOOLEAN,
        False,
        "Do not name product and version in CONNECTED.",
    )
    ssl_cert_login: bool = setting(
        "stomp.ssl_cert_login",
        BOOLEAN,
        False,
        "Log in clients over TLS that give no name by their certificate (`ssl_cert_login_from`).",
    )
    login_timeout_ms: int = setting(
        "stomp.login_timeout",
        MILLISECONDS,
        10_000,
        "How long a client may take to log in.",
    )
    max_frame_size_bytes: int = setting(
        "stomp.max_frame_size",
        binary_size(minimum=FRAME_BYTES_MIN),
        4 * 1024 * 1024,
        "The largest frame of a client; a larger one closes the connection.",
    )
    default_nack_requeue: bool = setting(
        "stomp.default_nack_requeue",
        BOOLEAN,
        True,
        "Requeue a message for which NACK has no header requeue.",
    )
    trailing_lf: bool = setting(
        "stomp.trailing_lf",
        BOOLEAN,
        True,
        "End each frame with a line break, which some clients need.",
    )
