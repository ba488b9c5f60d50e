"""The settings of MQTT. Without a listener, and without the plugin, it is off."""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, setting
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    LISTENER,
    PORT,
    TEXT,
    Listener,
    one_of,
    unless,
    whole_number,
)

PLUGIN = "rabbitmq_mqtt"
AS_RABBITMQ, EXACTLY_ONCE = "as_rabbitmq", "exactly_once"
"""RabbitMQ's plugin: where it is enabled, the protocol has its usual port."""
PACKET_BYTES_MAX = 268_435_455
UINT16_MAX = 2**16 - 1
UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class MqttSettings:
    """`config.mqtt`."""

    listeners: tuple[Listener, ...] = listed_setting(
        "mqtt.listeners.tcp.$name",
        LISTENER,
        (),
        "An address for MQTT clients: a port, on all interfaces, or host:port.",
        default_text=f"none; 1883 with the plugin {PLUGIN}",
    )
    tls_listeners: tuple[Listener, ...] = listed_setting(
        "mqtt.listeners.ssl.$name",
        LISTENER,
        (),
        "An address for MQTT clients over TLS, with the certificates of `ssl_options`.",
        default_text="none",
    )
    advertised_host: str | None = setting(
        "mqtt.advertised_host",
        HOST,
        None,
        "The host that clients of MQTT 5.0 are told when another node is put under maintenance.",
        default_text="the host of the node's name",
    )
    advertised_port: int = setting(
        "mqtt.advertised_port",
        PORT,
        0,
        "The port that they are told.",
        default_text="the port of the node's first listener",
    )
    advertised_tls_host: str | None = setting(
        "mqtt.advertised_tls_host",
        HOST,
        None,
        "The host for clients over TLS.",
        default_text="mqtt.advertised_host",
    )
    advertised_tls_port: int = setting(
        "mqtt.advertised_tls_port",
        PORT,
        0,
        "The port for clients over TLS.",
        default_text="the port of the node's first listener with TLS",
    )
    vhost: str = setting(
        "mqtt.vhost", TEXT, "/", "The virtual host of clients whose user name has none."
    )
    exchange: str = setting(
        "mqtt.exchange",
        TEXT,
        "amq.topic",
        "The topic exchange that MQTT clients publish to and that their queues are bound to.",
    )
    default_user: str = setting(
        "mqtt.default_user",
        TEXT,
        "guest",
        "The user of clients that send neither a user name nor a password.",
    )
    default_pass: str = setting(
        "mqtt.default_pass", TEXT, "guest", "That user's password.", is_secret=True
    )
    allow_anonymous: bool = setting(
        "mqtt.allow_anonymous",
        BOOLEAN,
        True,
        "Whether clients may connect without a user name.",
    )
    ssl_cert_login: bool = setting(
        "mqtt.ssl_cert_login",
        BOOLEAN,
        False,
        "Whether clients over TLS log in with the name in their certificate "
        "(`ssl_cert_login_from`) if they send neither a user name nor a password.",
    )
    ssl_cert_client_id_from: str = setting(
        "mqtt.ssl_cert_client_id_from",
        one_of("", "distinguished_name", "subject_alternative_name"),
        "",
        "The part of a client certificate that has to be the client's identifier. A client without "
        "it may have any identifier.",
        default_text="none",
    )
    ssl_cert_login_san_type: str = setting(
        "mqtt.ssl_cert_login_san_type",
        one_of("dns", "ip", "email", "uri", "other_name"),
        "dns",
        "The type of that subject alternative name.",
    )
    ssl_cert_login_san_index: int = setting(
        "mqtt.ssl_cert_login_san_index",
        whole_number(),
        0,
        "The index of that name among those of its type, from 0.",
    )
    prefetch: int = setting(
        "mqtt.prefetch",
        whole_number("messages", minimum=1, maximum=UINT16_MAX),
        10,
        "How many QoS 1 messages a client may have and not have acknowledged; a client of MQTT 5.0 "
        "can ask for fewer.",
    )
    receive_maximum: int = setting(
        "mqtt.receive_maximum",
        whole_number("messages", minimum=1, maximum=UINT16_MAX),
        UINT16_MAX,
        "How many messages with QoS above 0 a client of MQTT 5.0 may have published and not have "
        "answered. CONNACK tells it; a client with more is disconnected. RabbitMQ has no limit.",
    )
    max_session_expiry_s: int | None = setting(
        "mqtt.max_session_expiry_interval_seconds",
        unless(whole_number("seconds", maximum=UINT32_MAX), "infinity"),
        86_400,
        "How long a session is kept at most after its client has disconnected, or `infinity`. "
        "Clients of MQTT 3.1.1 with a persistent session get this time.",
    )
    subscription_ttl_ms: int | None = setting(
        "mqtt.subscription_ttl",
        unless(whole_number("milliseconds"), "undefined", "infinity"),
        None,
        "How long a session of MQTT 3.1 or 3.1.1 is kept, with `compat = 3.12`. RabbitMQ 4 has "
        "`mqtt.max_session_expiry_interval_seconds` only.",
    )
    durable_queue_type: str = setting(
        "mqtt.durable_queue_type",
        one_of("classic", "quorum"),
        "classic",
        "The type of the queues of sessions that stay.",
    )
    qos2: str = setting(
        "mqtt.qos2",
        one_of(AS_RABBITMQ, EXACTLY_ONCE),
        AS_RABBITMQ,
        "QoS 2: `exactly_once`, or `as_rabbitmq`, which grants QoS 1 for it, takes messages of "
        "MQTT 3.1.1 as QoS 1, and refuses those of 5.0.",
    )
    topic_alias_maximum: int = setting(
        "mqtt.topic_alias_maximum",
        whole_number(maximum=UINT16_MAX),
        16,
        "How many topic aliases a client of MQTT 5.0 may use when it publishes.",
    )
    max_packet_size_unauthenticated: int = setting(
        "mqtt.max_packet_size_unauthenticated",
        whole_number("bytes", minimum=1, maximum=PACKET_BYTES_MAX),
        65_536,
        "The largest CONNECT.",
    )
    max_packet_size_authenticated: int = setting(
        "mqtt.max_packet_size_authenticated",
        whole_number("bytes", minimum=1, maximum=PACKET_BYTES_MAX),
        PACKET_BYTES_MAX,
        "The largest packet of a client that has logged in.",
    )
    mailbox_soft_limit: int = setting(
        "mqtt.mailbox_soft_limit",
        whole_number("messages"),
        200,
        "How many QoS 0 messages wait at most for a client that does not read what it is sent, if "
        "its session ends with the connection; older ones are dropped. 0 is no limit.",
    )
    login_timeout_ms: int = setting(
        "mqtt.login_timeout",
        whole_number("milliseconds", minimum=1),
        10_000,
        "How long a client may take to send CONNECT.",
    )
    sparkplug: bool = setting(
        "mqtt.sparkplug",
        BOOLEAN,
        False,
        "Whether the namespaces of Sparkplug (`spBv1.0`) keep their dot in topics.",
    )
    shared_subscriptions: bool = setting(
        "mqtt.shared_subscriptions",
        BOOLEAN,
        False,
        "Whether filters that begin with `$share/` share their messages among clients. RabbitMQ "
        "takes them as ordinary filters.",
    )
