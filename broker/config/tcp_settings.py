"""The settings of TCP: the addresses for AMQP clients, and the options of their sockets."""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, setting
from leveret.broker.config.value_kinds import BOOLEAN, LISTENER, Kind, Listener, whole_number

BUFFER_BYTES: Kind[int | None] = whole_number("bytes", minimum=1)


@dataclass(frozen=True)
class TcpSettings:
    """`config.tcp`."""

    listeners: tuple[Listener, ...] = listed_setting(
        "listeners.tcp.$name",
        LISTENER,
        (Listener(None, 5672),),
        "An address for AMQP clients: a port, on all interfaces, or host:port.",
        default_text="5672",
    )
    backlog: int = setting(
        "tcp_listen_options.backlog",
        whole_number("connections", minimum=1),
        128,
        "How many connections may wait to be accepted.",
    )
    nodelay: bool = setting(
        "tcp_listen_options.nodelay",
        BOOLEAN,
        True,
        "Send small packets at once, without Nagle's algorithm.",
    )
    keepalive: bool = setting(
        "tcp_listen_options.keepalive",
        BOOLEAN,
        False,
        "Have the operating system probe idle connections.",
    )
    # RabbitMQ lingers for 0 seconds after it has flushed its output. A plain socket that lingers
    # for 0 seconds resets the connection and drops the last frames, connection.close-ok among them.
    linger: bool = setting(
        "tcp_listen_options.linger.on",
        BOOLEAN,
        False,
        "When a socket is closed, wait until its output has been sent.",
    )
    linger_timeout_s: int = setting(
        "tcp_listen_options.linger.timeout",
        whole_number("seconds"),
        0,
        "How long to wait then; 0 resets the connection.",
    )
    send_buffer_bytes: int | None = setting(
        "tcp_listen_options.sndbuf",
        BUFFER_BYTES,
        None,
        "The size of a socket's send buffer.",
        default_text="the system's",
    )
    receive_buffer_bytes: int | None = setting(
        "tcp_listen_options.recbuf",
        BUFFER_BYTES,
        None,
        "The size of a socket's receive buffer.",
        default_text="the system's",
    )
