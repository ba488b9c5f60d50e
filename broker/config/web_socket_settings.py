"""The settings of MQTT and of STOMP over WebSockets. Without a listener, and without the plugin of
the protocol, they are off.
"""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, section, setting
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    LISTENER,
    MILLISECONDS,
    PORT,
    URL_PATH,
    Listener,
    binary_size,
    one_of,
    unless,
)

TEXT_FRAMES, BINARY_FRAMES = "text", "binary"


@dataclass(frozen=True)
class WebSocketSettings:
    """`config.web_mqtt`, and what `config.web_stomp` has in common with it."""

    listeners: tuple[Listener, ...] = listed_setting(
        "listeners.tcp.$name",
        LISTENER,
        (),
        "An address for WebSockets: a port, on all interfaces, or host:port.",
        default_text="none; 15675 and 15674 with the plugins rabbitmq_web_mqtt, rabbitmq_web_stomp",
    )
    tls_listeners: tuple[Listener, ...] = listed_setting(
        "listeners.ssl.$name",
        LISTENER,
        (),
        "An address for WebSockets over TLS, with the certificates of `ssl`, else those of "
        "`ssl_options`.",
        default_text="none",
    )
    port: int | None = setting(
        "tcp.port port", PORT, None, "In place of a listener: the port.", default_text="not set"
    )
    host: str | None = setting(
        "tcp.ip", HOST, None, "The address of this port.", default_text="all interfaces"
    )
    tls_port: int | None = setting(
        "ssl.port", PORT, None, "In place of a listener over TLS: the port.", default_text="not set"
    )
    tls_host: str | None = setting(
        "ssl.ip", HOST, None, "The address of this port.", default_text="all interfaces"
    )
    tls: TlsListenerOptions = section(TlsListenerOptions, "ssl", described_as="ssl_options")
    path: str = setting("ws_path", URL_PATH, "/ws", "The path of the address.")
    compresses: bool = setting(
        "ws_opts.compress",
        BOOLEAN,
        False,
        "Whether messages may be compressed (permessage-deflate) if the client offers it. RabbitMQ "
        "does so by default.",
    )
    idle_timeout_ms: int | None = setting(
        "ws_opts.idle_timeout cowboy_opts.idle_timeout",
        unless(MILLISECONDS, "infinity"),
        60_000,
        "A client that sends nothing for this time is disconnected.",
    )
    frame_bytes_max: int | None = setting(
        "ws_opts.max_frame_size",
        unless(binary_size(minimum=1), "infinity"),
        None,
        "The largest WebSocket frame of a client.",
        default_text="infinity",
    )


@dataclass(frozen=True)
class WebStompSettings(WebSocketSettings):
    """`config.web_stomp`. Frames of MQTT are binary, and its CONNECT has the user."""

    frames: str = setting(
        "ws_frame",
        one_of(TEXT_FRAMES, BINARY_FRAMES),
        TEXT_FRAMES,
        "The kind of the frames that clients get.",
        is_own=True,
    )
    uses_http_auth: bool = setting(
        "use_http_auth",
        BOOLEAN,
        False,
        "Log in clients with name and password of the request that opens the WebSocket (HTTP basic "
        "authentication), else as the default user, whatever CONNECT has.",
        is_own=True,
    )
