"""The settings of AMQP 1.0, whose clients connect to the ports of AMQP 0-9-1."""

from dataclasses import dataclass

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import BOOLEAN, HOST, PORT


@dataclass(frozen=True)
class Amqp10Settings:
    """`config.amqp10`."""

    permits_addresses_of_version_1: bool = setting(
        "deprecated_features.permit.amqp_address_v1",
        BOOLEAN,
        True,
        "Whether links may have the addresses of RabbitMQ 3, such as `/queue/orders`.",
    )
    redirects_on_maintenance: bool = setting(
        "amqp1_0.redirect_on_maintenance",
        BOOLEAN,
        False,
        "Whether clients of AMQP 1.0 are redirected to another node when theirs is put under "
        "maintenance. Many clients then end instead of connecting again: see "
        "[amqp10.md](amqp10.md#alarms-and-disconnections).",
    )
    advertised_host: str | None = setting(
        "amqp1_0.advertised_host",
        HOST,
        None,
        "The host that clients of AMQP 1.0 are redirected to when another node is put under "
        "maintenance.",
        default_text="the host of the node's name",
    )
    advertised_port: int = setting(
        "amqp1_0.advertised_port",
        PORT,
        0,
        "The port that they are redirected to.",
        default_text="the port of the node's first listener",
    )
    advertised_tls_host: str | None = setting(
        "amqp1_0.advertised_tls_host",
        HOST,
        None,
        "The host for clients over TLS.",
        default_text="amqp1_0.advertised_host",
    )
    advertised_tls_port: int = setting(
        "amqp1_0.advertised_tls_port",
        PORT,
        0,
        "The port for clients over TLS.",
        default_text="the port of the node's first listener with TLS",
    )
