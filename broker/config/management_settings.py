"""The settings of management: the HTTP API, its pages, and the metrics."""

from dataclasses import dataclass

from broker.config.declaration import listed_setting, setting
from broker.config.values import BOOLEAN, HOST, MILLISECONDS, PATTERN, PORT, TEXT, whole_number


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
    management_listener_ssl: bool = setting(
        "management.listener.ssl",
        BOOLEAN,
        False,
        "Whether that port is one for HTTPS, as older configuration files say it.",
    )
    management_path_prefix: str = setting(
        "management.path_prefix",
        TEXT,
        "",
        "What comes before all paths of the API and the pages.",
        default_text="none",
    )
    management_cors_origins: tuple[str, ...] = listed_setting(
        "management.cors.allow_origins.$name",
        TEXT,
        (),
        "Other origins whose pages may use the API; * is all.",
        default_text="none",
    )
    management_cors_max_age_s: int = setting(
        "management.cors.max_age",
        whole_number("seconds"),
        1800,
        "How long browsers may remember that.",
    )
    management_csp: str = setting(
        "management.csp.policy",
        TEXT,
        "",
        "The Content-Security-Policy of answers.",
        default_text="a strict one",
    )
    management_hsts: str = setting(
        "management.hsts.policy",
        TEXT,
        "",
        "The Strict-Transport-Security of answers.",
        default_text="none",
    )
    management_body_bytes_max: int = setting(
        "management.http.max_body_size",
        whole_number("bytes", minimum=1),
        20_000_000,
        "The largest body that a request to the management API may have.",
    )
    management_request_timeout_ms: int = setting(
        "management.tcp.request_timeout",
        MILLISECONDS,
        60_000,
        "How long a client may take over a request's headers, and may be idle between requests.",
    )
    management_body_timeout_ms: int = setting(
        "management.tcp.inactivity_timeout",
        MILLISECONDS,
        300_000,
        "How long a request's body may take to arrive.",
    )
    prometheus_port: int = setting(
        "prometheus.tcp.port",
        PORT,
        15692,
        "The port of the metrics; 0 switches it off.",
        flag="prometheus_port",
    )
    prometheus_bind: str | None = setting(
        "prometheus.tcp.ip",
        HOST,
        None,
        "The one interface that the metrics listen on.",
        default_text="all interfaces",
    )
    prometheus_path: str = setting("prometheus.path", TEXT, "/metrics", "Where the metrics are.")
    prometheus_per_object: bool = setting(
        "prometheus.return_per_object_metrics",
        BOOLEAN,
        False,
        "Whether /metrics has metrics of each object, as /metrics/per-object has.",
    )
    prometheus_authentication: bool = setting(
        "prometheus.authentication.enabled",
        BOOLEAN,
        False,
        "Whether the metrics ask for a name and password: those of a monitor.",
    )
    prometheus_left_out: str = setting(
        "prometheus.filter_aggregated_queue_metrics_pattern",
        PATTERN,
        "",
        "Queues whose names match do not count in the sums of /metrics.",
        default_text="none",
    )
    prometheus_age_queues: int = setting(
        "prometheus.age_queues",
        whole_number("queues"),
        20,
        "How many of the busiest queues have ages of their own in the metrics; others share one.",
    )
