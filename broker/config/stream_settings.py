"""The settings of the stream protocol. Without a listener, and without the plugin, it is off."""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, setting
from leveret.broker.config.value_kinds import (
    HOST,
    LISTENER,
    PORT,
    Listener,
    binary_size,
    either,
    whole_number,
)

FRAME_BYTES_MIN = 4096
UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class StreamSettings:
    """`config.stream`."""

    listeners: tuple[Listener, ...] = listed_setting(
        "stream.listeners.tcp.$name",
        LISTENER,
        (),
        "An address for clients of the stream protocol: a port, on all interfaces, or host:port.",
        default_text="none; 5552 with the plugin rabbitmq_stream",
    )
    tls_listeners: tuple[Listener, ...] = listed_setting(
        "stream.listeners.ssl.$name",
        LISTENER,
        (),
        "An address for its clients over TLS, with the certificates of `ssl_options`.",
        default_text="none",
    )
    advertised_host: str | None = setting(
        "stream.advertised_host",
        HOST,
        None,
        "The host that the node's clients are told to connect to.",
        default_text="the host of the node's name",
    )
    advertised_port: int = setting(
        "stream.advertised_port",
        PORT,
        0,
        "The port that they are told.",
        default_text="the one that the client has connected to",
    )
    advertised_tls_host: str | None = setting(
        "stream.advertised_tls_host",
        HOST,
        None,
        "The host for clients over TLS.",
        default_text="stream.advertised_host",
    )
    advertised_tls_port: int = setting(
        "stream.advertised_tls_port",
        PORT,
        0,
        "The port for clients over TLS.",
        default_text="the one that the client has connected to",
    )
    frame_max_bytes: int = setting(
        "stream.frame_max",
        either(binary_size(minimum=FRAME_BYTES_MIN), 0),
        1_048_576,
        "The frame size limit that clients are offered; 0 is no limit.",
    )
    heartbeat_s: int = setting(
        "stream.heartbeat",
        whole_number("seconds", maximum=UINT32_MAX),
        60,
        "The heartbeat interval that clients are offered; 0 disables heartbeats.",
    )
    initial_credits: int = setting(
        "stream.initial_credits",
        whole_number("messages", minimum=1),
        50_000,
        "How many unconfirmed messages a connection may have before it is not read any longer.",
    )
    credits_for_unblocking: int = setting(
        "stream.credits_required_for_unblocking",
        whole_number("messages"),
        12_500,
        "How many of them have to be confirmed before it is read again.",
    )
