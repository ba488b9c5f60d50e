"""The settings of management: the HTTP API, the pages and the metrics."""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, section, setting
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    MILLISECONDS,
    PATTERN,
    PORT,
    TEXT,
    URL_PATH,
    whole_number,
)


@dataclass(frozen=True)
class ManagementSettings:
    """`config.management`."""

    port: int = setting(
        "management.tcp.port management.listener.port",
        PORT,
        15672,
        "The port of the management API and pages; 0 disables it.",
        flag="management_port",
    )
    bind: str | None = setting(
        "management.tcp.ip management.listener.ip",
        HOST,
        None,
        "The interface that management listens on.",
        default_text="all interfaces",
    )
    listener_ssl: bool = setting(
        "management.listener.ssl",
        BOOLEAN,
        False,
        "Whether that port is for HTTPS: the form of older configuration files.",
    )
    path_prefix: str = setting(
        "management.path_prefix",
        URL_PATH,
        "",
        "A prefix of all paths of the API and the pages.",
        default_text="none",
    )
    cors_origins: tuple[str, ...] = listed_setting(
        "management.cors.allow_origins.$name",
        TEXT,
        (),
        "Origins whose pages may use the API; * is any origin.",
        default_text="none",
    )
    cors_max_age_s: int = setting(
        "management.cors.max_age",
        whole_number("seconds"),
        1800,
        "How long browsers may cache the answer to a preflight request.",
    )
    csp: str = setting(
        "management.csp.policy",
        TEXT,
        "",
        "The Content-Security-Policy header of responses.",
        default_text="a strict one",
    )
    hsts: str = setting(
        "management.hsts.policy",
        TEXT,
        "",
        "The Strict-Transport-Security header of responses.",
        default_text="none",
    )
    body_bytes_max: int = setting(
        "management.http.max_body_size",
        whole_number("bytes", minimum=1),
        20_000_000,
        "The largest body that a request to the management API may have.",
    )
    request_timeout_ms: int = setting(
        "management.tcp.request_timeout",
        MILLISECONDS,
        60_000,
        "How long a client may be idle between requests; it has 5 seconds for the first one.",
    )
    body_timeout_ms: int = setting(
        "management.tcp.inactivity_timeout",
        MILLISECONDS,
        300_000,
        "How long a request's body may take to arrive.",
    )
    keeps_quorum_members: bool = setting(
        "management.restrictions.quorum_queue_replica_operations.disabled",
        BOOLEAN,
        False,
        "Whether the management API refuses to change the members of quorum queues.",
    )
    login_session_min: int | None = setting(
        "management.login_session_timeout",
        whole_number("minutes", minimum=1),
        None,
        "How long a login on the web pages is valid.",
        default_text="480",
    )
    tls_port: int = setting(
        "management.ssl.port", PORT, 0, "The port of management over HTTPS; 0 disables it."
    )
    tls_bind: str | None = setting(
        "management.ssl.ip",
        HOST,
        None,
        "The interface that this port is opened on.",
        default_text="all interfaces",
    )
    tls: TlsListenerOptions = section(
        TlsListenerOptions,
        "management.ssl management.listener.ssl_opts",
        described_as="ssl_options",
    )


@dataclass(frozen=True)
class PrometheusSettings:
    """`config.prometheus`."""

    port: int = setting(
        "prometheus.tcp.port",
        PORT,
        15692,
        "The port of the metrics; 0 disables it.",
        flag="prometheus_port",
    )
    bind: str | None = setting(
        "prometheus.tcp.ip",
        HOST,
        None,
        "The interface that the metrics listen on.",
        default_text="all interfaces",
    )
    path: str = setting("prometheus.path", URL_PATH, "/metrics", "The path of the metrics.")
    per_object: bool = setting(
        "prometheus.return_per_object_metrics",
        BOOLEAN,
        False,
        "Whether /metrics returns metrics per object, as /metrics/per-object does.",
    )
    authentication: bool = setting(
        "prometheus.authentication.enabled",
        BOOLEAN,
        False,
        "Whether the metrics require the credentials of a user with the tag monitoring.",
    )
    left_out: str = setting(
        "prometheus.filter_aggregated_queue_metrics_pattern",
        PATTERN,
        "",
        "Queues whose names match are left out of the totals of /metrics.",
        default_text="none",
    )
    age_queues: int = setting(
        "prometheus.age_queues",
        whole_number("queues"),
        20,
        "How many of the busiest queues have message ages of their own in the metrics; the others "
        "share one.",
    )
    tls_port: int = setting(
        "prometheus.ssl.port", PORT, 0, "The port of the metrics over HTTPS; 0 disables it."
    )
    tls_bind: str | None = setting(
        "prometheus.ssl.ip",
        HOST,
        None,
        "The interface that this port is opened on.",
        default_text="all interfaces",
    )
    tls: TlsListenerOptions = section(
        TlsListenerOptions, "prometheus.ssl", described_as="ssl_options"
    )
