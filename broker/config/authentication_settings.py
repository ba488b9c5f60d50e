"""The settings of logging in: mechanisms, and the backends that know users and permissions.

Those of the LDAP backend are in ldap_settings.py.
"""

from dataclasses import dataclass
from pathlib import Path

from broker.config.declaration import listed_setting, named_setting, setting
from broker.config.ldap_settings import LdapSettings
from broker.config.values import BOOLEAN, MILLISECONDS, NAME, PATH, TEXT, one_of

VERIFY = one_of("verify_peer", "verify_none")


@dataclass(frozen=True)
class AuthenticationSettings(LdapSettings):
    """What `Config` has of them."""

    auth_mechanisms: tuple[str, ...] = listed_setting(
        "auth_mechanisms.$name",
        NAME,
        ("PLAIN", "AMQPLAIN"),
        "The ways to log in that clients are offered.",
    )
    auth_backends: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number",
        NAME,
        "Who is asked for users and permissions, in the order of the numbers: internal, http, "
        "ldap, oauth2 or cache (or their modules' names in RabbitMQ). Without any it is internal.",
    )
    auth_backends_authentication: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number.authn",
        NAME,
        "Who is asked for users only, where permissions come from somebody else.",
    )
    auth_backends_authorization: tuple[tuple[str, str], ...] = named_setting(
        "auth_backends.$number.authz",
        NAME,
        "Who is asked for the permissions of the users that authn knows.",
    )

    # The cache
    auth_cache_backend: str = setting(
        "auth_cache.cached_backend", NAME, "internal", "Whose answers the backend cache keeps."
    )
    auth_cache_authentication: str | None = setting(
        "auth_cache.cached_backend.authn",
        NAME,
        None,
        "Whose answers on users it keeps.",
        default_text="auth_cache.cached_backend",
    )
    auth_cache_authorization: str | None = setting(
        "auth_cache.cached_backend.authz",
        NAME,
        None,
        "Whose answers on permissions it keeps.",
        default_text="auth_cache.cached_backend",
    )
    auth_cache_ttl_ms: int = setting(
        "auth_cache.cache_ttl", MILLISECONDS, 15_000, "How long it keeps them."
    )
    auth_cache_refusals: bool = setting(
        "auth_cache.cache_refusals", BOOLEAN, False, "Whether it keeps refusals, too."
    )

    # HTTP
    auth_http_method: str = setting(
        "auth_http.http_method", one_of("get", "post"), "get", "How the HTTP backend asks."
    )
    auth_http_user_path: str = setting(
        "auth_http.user_path",
        TEXT,
        "http://localhost:8000/auth/user",
        "Where it asks whether a password is right.",
    )
    auth_http_vhost_path: str = setting(
        "auth_http.vhost_path",
        TEXT,
        "http://localhost:8000/auth/vhost",
        "Where it asks whether a user may open a vhost.",
    )
    auth_http_resource_path: str = setting(
        "auth_http.resource_path",
        TEXT,
        "http://localhost:8000/auth/resource",
        "Where it asks whether a user may use a queue or an exchange.",
    )
    auth_http_topic_path: str = setting(
        "auth_http.topic_path",
        TEXT,
        "http://localhost:8000/auth/topic",
        "Where it asks whether a user may use a routing key.",
    )
    auth_http_timeout_ms: int = setting(
        "auth_http.request_timeout", MILLISECONDS, 15_000, "How long an answer may take."
    )
    auth_http_connection_timeout_ms: int | None = setting(
        "auth_http.connection_timeout",
        MILLISECONDS,
        None,
        "How long connecting may take.",
        default_text="auth_http.request_timeout",
    )
    auth_http_tls_cacertfile: Path | None = setting(  # noqa: RUF009
        "auth_http.ssl_options.cacertfile",
        PATH,
        None,
        "The authorities of the server's certificate.",
        default_text="the system's",
    )
    auth_http_tls_certfile: Path | None = setting(  # noqa: RUF009
        "auth_http.ssl_options.certfile", PATH, None, "The node's certificate for the server."
    )
    auth_http_tls_keyfile: Path | None = setting(  # noqa: RUF009
        "auth_http.ssl_options.keyfile",
        PATH,
        None,
        "The key of that.",
        default_text="in the certificate's file",
    )
    auth_http_tls_password: str = setting(
        "auth_http.ssl_options.password", TEXT, "", "The password of the key.", is_secret=True
    )
    auth_http_tls_verify: str = setting(
        "auth_http.ssl_options.verify",
        VERIFY,
        "verify_peer",
        "Whether the server's certificate is checked.",
    )
    auth_http_tls_sni: str = setting(
        "auth_http.ssl_options.sni",
        TEXT,
        "",
        "The name that the server's certificate has to have; none is the host of the address.",
        default_text="none",
    )

    # OAuth 2
    oauth2_resource_server_id: str = setting(
        "auth_oauth2.resource_server_id",
        TEXT,
        "",
        "Who this node is in tokens: it has to be in their audience, and begins their scopes.",
        default_text="none",
    )
    oauth2_scope_prefix: str | None = setting(
        "auth_oauth2.scope_prefix",
        TEXT,
        None,
        "What scopes begin with.",
        default_text="resource_server_id and a dot",
    )
    oauth2_additional_scopes_key: str = setting(
        "auth_oauth2.additional_scopes_key",
        TEXT,
        "",
        "Other claims with scopes, separated by blanks; dots lead into objects.",
        default_text="none",
    )
    oauth2_scope_aliases: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$alias",
        TEXT,
        "The scopes, separated by blanks, that a scope of this name stands for.",
    )
    oauth2_numbered_aliases: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$number.alias",
        NAME,
        "The name of an alias, where it cannot be a word of a key.",
    )
    oauth2_numbered_scopes: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$number.scope",
        TEXT,
        "The scopes that the alias of the same number stands for.",
    )
    oauth2_resource_server_type: str = setting(
        "auth_oauth2.resource_server_type",
        TEXT,
        "",
        "The type of those authorization_details of a token that are for this node.",
        default_text="none",
    )
    oauth2_username_claims: tuple[str, ...] = listed_setting(
        "auth_oauth2.preferred_username_claims.$number",
        NAME,
        (),
        "Claims that name the user, the first that is there; after them come sub and client_id.",
        default_text="none",
    )
    oauth2_verify_audience: bool = setting(
        "auth_oauth2.verify_aud", BOOLEAN, True, "Whether the audience of a token is checked."
    )
    oauth2_algorithms: tuple[str, ...] = listed_setting(
        "auth_oauth2.algorithms.$number",
        NAME,
        (),
        "The algorithms that signatures may have.",
        default_text="all that fit the key",
    )
    oauth2_signing_keys: tuple[tuple[str, Path], ...] = named_setting(
        "auth_oauth2.signing_keys.$id", PATH, "Files of the keys that sign tokens, by their ids."
    )
    oauth2_default_key: str = setting(
        "auth_oauth2.default_key",
        NAME,
        "",
        "The key of tokens that name none.",
        default_text="none",
    )
    oauth2_jwks_url: str = setting(
        "auth_oauth2.jwks_url", TEXT, "", "Where the keys are published.", default_text="none"
    )
    oauth2_issuer: str = setting(
        "auth_oauth2.issuer",
        TEXT,
        "",
        "The issuer, whose openid-configuration says where the keys are.",
        default_text="none",
    )
    oauth2_https_cacertfile: Path | None = setting(  # noqa: RUF009
        "auth_oauth2.https.cacertfile",
        PATH,
        None,
        "The authorities of the certificate there.",
        default_text="the system's",
    )
    oauth2_https_verify: str = setting(
        "auth_oauth2.https.verify auth_oauth2.https.peer_verification",
        VERIFY,
        "verify_peer",
        "Whether that certificate is checked.",
    )

    @property
    def auth_backends_are_set(self) -> bool:
        """Other backends than the node's own users are configured."""
        return bool(
            self.auth_backends
            or self.auth_backends_authentication
            or self.auth_backends_authorization
        )
