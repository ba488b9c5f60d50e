"""The settings of logging in: mechanisms, and the backends that know users and permissions."""

from dataclasses import dataclass
from pathlib import Path

from broker.config.declaration import listed_setting, named_setting, setting
from broker.config.values import BOOLEAN, MILLISECONDS, NAME, PATH, TEXT, one_of, whole_number


@dataclass(frozen=True)
class AuthenticationSettings:
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
        "Who is asked for users and permissions, in the order of the numbers: internal, http, ldap "
        "or oauth2 (or their modules' names in RabbitMQ). Without any it is internal.",
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

    # LDAP
    auth_ldap_servers: tuple[str, ...] = listed_setting(
        "auth_ldap.servers.$number",
        NAME,
        (),
        "The LDAP servers, asked in this order.",
        default_text="none",
    )
    auth_ldap_port: int = setting(
        "auth_ldap.port", whole_number(minimum=1, maximum=65_535), 389, "Their port."
    )
    auth_ldap_use_ssl: bool = setting("auth_ldap.use_ssl", BOOLEAN, False, "Speak TLS with them.")
    auth_ldap_use_starttls: bool = setting(
        "auth_ldap.use_starttls", BOOLEAN, False, "Begin TLS on a plain connection."
    )
    auth_ldap_timeout_ms: int = setting(
        "auth_ldap.timeout", MILLISECONDS, 10_000, "How long an answer may take."
    )
    auth_ldap_user_dn_pattern: str = setting(
        "auth_ldap.user_dn_pattern",
        TEXT,
        "${username}",
        "The distinguished name of a user; ${username} is filled in.",
    )
    auth_ldap_dn_lookup_base: str = setting(
        "auth_ldap.dn_lookup_base", TEXT, "", "Where a user's entry is searched for.",
        default_text="none",
    )  # fmt: skip
    auth_ldap_dn_lookup_attribute: str = setting(
        "auth_ldap.dn_lookup_attribute", TEXT, "", "The attribute that holds the user name.",
        default_text="none",
    )  # fmt: skip
    auth_ldap_bind_dn: str = setting(
        "auth_ldap.other_bind.user_dn",
        TEXT,
        "",
        "Who the node is when it looks for users and groups.",
        default_text="the user who logs in",
    )
    auth_ldap_bind_password: str = setting(
        "auth_ldap.other_bind.password", TEXT, "", "The password of that.", is_secret=True
    )
    auth_ldap_vhost_query: str = setting(
        "auth_ldap.vhost_access_query", TEXT, "{constant, true}", "Who may open a vhost."
    )
    auth_ldap_resource_query: str = setting(
        "auth_ldap.resource_access_query",
        TEXT,
        "{constant, true}",
        "Who may configure, write or read a queue or an exchange.",
    )
    auth_ldap_topic_query: str = setting(
        "auth_ldap.topic_access_query", TEXT, "{constant, true}", "Who may use a routing key."
    )
    auth_ldap_tag_queries: tuple[tuple[str, str], ...] = named_setting(
        "auth_ldap.tag_queries.$tag", TEXT, "Who has a tag, such as administrator."
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
        "Another claim with scopes; dots lead into objects.",
        default_text="none",
    )
    oauth2_username_claims: tuple[str, ...] = listed_setting(
        "auth_oauth2.preferred_username_claims.$number",
        NAME,
        ("sub", "client_id"),
        "Claims that name the user, the first that is there.",
    )
    oauth2_verify_audience: bool = setting(
        "auth_oauth2.verify_aud", BOOLEAN, True, "Whether the audience of a token is checked."
    )
    oauth2_algorithms: tuple[str, ...] = listed_setting(
        "auth_oauth2.algorithms.$number",
        NAME,
        (),
        "The algorithms that signatures may have.",
        default_text="RS*, PS*, ES* and EdDSA; HS* for keys that are no PEM",
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

    @property
    def auth_backends_are_set(self) -> bool:
        """Other backends than the node's own users are configured."""
        return bool(self.auth_backends or self.auth_backends_authentication)
