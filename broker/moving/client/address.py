"""The address of a server, the login there, and the limits of the connection.

Values only: `connection.py` connects to them. The defaults are those of RabbitMQ's own client,
which its shovels and federation links use (`amqp_params_network`).
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PORT: Final = 5672
TLS_PORT: Final = 5671
PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"
MECHANISMS: Final = (PLAIN, AMQPLAIN, EXTERNAL)
"""The mechanisms of authentication that the client knows."""
FRAME_BYTES_MAX: Final = 131_072
"""RabbitMQ's frame_max. Without a limit, a server could make this client keep 4 GB of a frame."""
MESSAGE_BYTES_MAX: Final = 512 * 1024 * 1024
"""The maximum of RabbitMQ's max_message_size."""
DISABLED: Final = "disable"
"""The server name that disables the indication."""


@dataclass(frozen=True)
class AddressTls:
    """How a connection uses TLS.

    cacertfile: the authorities that the server's certificate is checked against; None for the
    system's. keyfile: None if the private key is in certfile. password: that of the key.
    verify_peer: whether the server's certificate is checked; RabbitMQ's client does not do that
    unless it is told. server_name_indication: the name that is asked for and checked against the
    certificate; empty for the address's host, `disable` for none. fail_if_no_peer_cert: RabbitMQ
    accepts it in a URI, although it has no meaning for a client.
    """

    cacertfile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password: str = field(default="", repr=False)
    verify_peer: bool = False
    server_name_indication: str = ""
    fail_if_no_peer_cert: bool = False


@dataclass(frozen=True)
class ServerAddress:
    """A server, and how to connect to it.

    mechanisms: in the order of preference; the first that the server offers is used. heartbeat_s,
    channel_max, frame_max: the smaller of this value and the server's is used; 0 for the server's.
    frame_max: in bytes; 0 for at most `FRAME_BYTES_MAX`. message_bytes_max: the largest body that
    is taken. connection_timeout_s: from the first packet until the connection is open. tls: None
    for no TLS; a context if the options do not suffice; it is used unchanged, with the host as the
    server's name.
    """

    host: str
    port: int = PORT
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    mechanisms: tuple[str, ...] = (PLAIN, AMQPLAIN)
    heartbeat_s: int = 10
    connection_timeout_s: float = 60.0
    channel_max: int = 2047
    frame_max: int = 0
    message_bytes_max: int = MESSAGE_BYTES_MAX
    tls: AddressTls | ssl.SSLContext | None = None

    def __str__(self) -> str:
        """The address for logs: without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqp' if self.tls is None else 'amqps'}://{host}:{self.port}"
