"""The settings of TLS: listeners and certificates."""

from dataclasses import dataclass

from broker.config.declaration import listed_setting
from broker.config.values import LISTENER, Listener


@dataclass(frozen=True)
class TlsSettings:
    """What `Config` has of them."""

    tls_listeners: tuple[Listener, ...] = listed_setting(
        "listeners.ssl.$name",
        LISTENER,
        (),
        "Where AMQP clients connect with TLS: a port, on all interfaces, or host:port.",
        default_text="none",
    )
