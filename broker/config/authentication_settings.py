"""The settings of authentication: SASL mechanisms, and the backends for users and permissions.

Those of the LDAP backend are in ldap_settings.py, those of the OAuth 2 backend in
oauth2_settings.py.
"""

from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, named_setting, section, setting
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    MILLISECONDS,
    NAME,
    TEXT,
    one_of,
    unless,
    whole_number,
)

COUNT = unless(whole_number(), "infinity")


@dataclass(frozen=True)
class AuthenticationSettings:
    """`config.authentication`."""

    mechanisms: tuple[str, ...] = listed_setting(
        "auth_mechanisms.$name",
        NAME,
        ("PLAIN", "AMQPLAIN"),
        "The SASL mechanisms that clients are offered.",
    )
    backends: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number",
        NAME,
        "The backends for authentication and authorization, in the order of the numbers: internal, "
        "http, ldap, oauth2 or cache (or the names of their RabbitMQ modules). The default is "
        "internal.",
    )
    backends_authentication: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number.authn",
        NAME,
        "The backend for authentication only, where another one is for authorization.",
    )
    backends_authorization: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number.authz",
        NAME,
        "The backend for the permissions of users whom the authn backend knows.",
    )
    failures_per_minute: int | None = setting(
        "auth_failures_per_minute",
        COUNT,
        60,
        "How many failed logins of one name from one address, or one IPv6 network of 64 bits, are "
        "checked; further ones are refused without a check, unless their credentials were accepted "
        "before. All names together may fail ten times as often, on loopback without limit.",
    )

    @property
    def has_backends(self) -> bool:
        """Backends are configured; otherwise only the internal one is used."""
        return bool(self.backends or self.backends_authentication or self.backends_authorization)


@dataclass(frozen=True)
class CacheSettings:
    """`config.auth_cache`."""

    backend: str = setting(
        "auth_cache.cached_backend",
        NAME,
        "internal",
        "The backend whose answers the cache backend stores.",
    )
    authentication: str | None = setting(
        "auth_cache.cached_backend.authn",
        NAME,
        None,
        "The backend whose answers about users are stored.",
        default_text="auth_cache.cached_backend",
    )
    authorization: str | None = setting(
        "auth_cache.cached_backend.authz",
        NAME,
        None,
        "The backend whose answers about permissions are stored.",
        default_text="auth_cache.cached_backend",
    )
    ttl_ms: int = setting(
        "auth_cache.cache_ttl", MILLISECONDS, 15_000, "How long an answer is stored."
    )
    refusals: bool = setting(
        "auth_cache.cache_refusals", BOOLEAN, False, "Whether refusals are stored as well."
    )


@dataclass(frozen=True)
class HttpSettings:
    """`config.auth_http`."""

    method: str = setting(
        "auth_http.http_method",
        one_of("get", "post"),
        "get",
        "The method of the HTTP backend's requests.",
    )
    user_path: str = setting(
        "auth_http.user_path",
        TEXT,
        "http://localhost:8000/auth/user",
        "The URL that is asked whether a password is correct.",
    )
    vhost_path: str = setting(
        "auth_http.vhost_path",
        TEXT,
        "http://localhost:8000/auth/vhost",
        "The URL that is asked whether a user may access a vhost.",
    )
    resource_path: str = setting(
        "auth_http.resource_path",
        TEXT,
        "http://localhost:8000/auth/resource",
        "The URL that is asked whether a user may access a queue or an exchange.",
    )
    topic_path: str = setting(
        "auth_http.topic_path",
        TEXT,
        "http://localhost:8000/auth/topic",
        "The URL that is asked whether a user may access a routing key.",
    )
    timeout_ms: int = setting(
        "auth_http.request_timeout", MILLISECONDS, 15_000, "How long a request may take."
    )
    connection_timeout_ms: int | None = setting(
        "auth_http.connection_timeout",
        MILLISECONDS,
        None,
        "How long opening a connection may take.",
        default_text="auth_http.request_timeout",
    )
    tls: ClientTlsOptions = section(ClientTlsOptions, "auth_http.ssl_options")
