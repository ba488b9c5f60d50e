"""The settings of management: the HTTP API, its pages, and the metrics."""

from dataclasses import dataclass

from broker.config.declaration import setting
from broker.config.values import HOST, PORT


@dataclass(frozen=True)
class ManagementSettings:
    """What `Config` has of them."""

    management_port: int = setting(
        "management.tcp.port management.listener.port",
        PORT,
        15672,
        "The port of the management API and pages; 0 switches it off.",
        flag="management_port",
    )
    management_bind: str | None = setting(
        "management.tcp.ip management.listener.ip",
        HOST,
        None,
        "The one interface that management listens on.",
        default_text="all interfaces",
    )
