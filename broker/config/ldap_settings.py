"""The settings of the LDAP backend (broker/auth/backends/ldap.py).

In RabbitMQ the queries are Erlang terms in advanced.config. Here they are settings whose value is
the text of such a term. All other settings have RabbitMQ's keys.
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

AS_USER, ANONYMOUS = "as_user", "anon"
BIND = one_of(AS_USER, ANONYMOUS)
ALLOW_ALL = "{constant, true}"


@dataclass(frozen=True)
class LdapSettings:
    """`config.ldap`."""

    servers: tuple[str, ...] = listed_setting(
        "auth_ldap.servers.$number",
        NAME,
        (),
        "The LDAP servers; the first one that can be reached is used.",
        default_text="none",
    )
    port: int = setting(
        "auth_ldap.port", whole_number(minimum=1, maximum=65_535), 389, "The port of the servers."
    )
    timeout_ms: int | None = setting(
        "auth_ldap.timeout",
        unless(MILLISECONDS, "infinity"),
        10_000,
        "How long connecting and each answer may take.",
    )
    pool_size: int = setting(
        "auth_ldap.connection_pool_size",
        whole_number("connections", minimum=1),
        64,
        "How many connections to the servers are opened at most; each has a thread.",
    )
    idle_timeout_ms: int | None = setting(
        "auth_ldap.idle_timeout",
        unless(whole_number("milliseconds"), "infinity"),
        300_000,
        "How long an idle connection is kept open; 0 keeps none.",
    )
    log: str = setting(
        "auth_ldap.log",
        one_of("true", "false", "network", "network_unsafe"),
        "false",
        "Whether decisions are logged; network traffic is never logged.",
    )
    use_ssl: bool = setting("auth_ldap.use_ssl", BOOLEAN, False, "Connect with TLS.")
    use_starttls: bool = setting(
        "auth_ldap.use_starttls", BOOLEAN, False, "Connect without TLS, then send StartTLS."
    )
    tls: ClientTlsOptions = section(ClientTlsOptions, "auth_ldap.ssl_options")

    # Users
    user_dn_pattern: str = setting(
        "auth_ldap.user_dn_pattern",
        TEXT,
        "${username}",
        "The distinguished name of a user; ${username} is replaced.",
    )
    user_bind_pattern: str = setting(
        "auth_ldap.user_bind_pattern",
        TEXT,
        "",
        "The name in the bind request of a user who logs in.",
        default_text="user_dn_pattern",
    )
    dn_lookup_attribute: str = setting(
        "auth_ldap.dn_lookup_attribute",
        TEXT,
        "none",
        "The attribute by which a user's entry is looked up; its value is what user_dn_pattern "
        "yields.",
    )
    dn_lookup_base: str = setting(
        "auth_ldap.dn_lookup_base", TEXT, "none", "The entry below which users are looked up."
    )
    dn_lookup_bind: str = setting(
        "auth_ldap.dn_lookup_bind",
        BIND,
        AS_USER,
        "The identity that looks users up: as_user, after the user's bind, or anon, before it.",
    )
    dn_lookup_bind_dn: str = setting(
        "auth_ldap.dn_lookup_bind.user_dn",
        TEXT,
        "",
        "The entry that looks users up before their bind; replaces dn_lookup_bind.",
        default_text="none",
    )
    dn_lookup_bind_password: str = setting(
        "auth_ldap.dn_lookup_bind.password", TEXT, "", "The password of that entry.", is_secret=True
    )
    group_lookup_base: str = setting(
        "auth_ldap.group_lookup_base",
        TEXT,
        "none",
        "The entry below which in_group_nested looks for groups.",
        default_text="dn_lookup_base, or the parent of the group",
    )

    # Queries
    bind: str = setting(
        "auth_ldap.other_bind",
        BIND,
        AS_USER,
        "The identity that runs the queries: as_user or anon.",
    )
    bind_dn: str = setting(
        "auth_ldap.other_bind.user_dn",
        TEXT,
        "",
        "The entry that runs the queries; replaces other_bind.",
        default_text="none",
    )
    bind_password: str = setting(
        "auth_ldap.other_bind.password", TEXT, "", "The password of that entry.", is_secret=True
    )
    vhost_query: str = setting(
        "auth_ldap.vhost_access_query auth_ldap.queries.vhost_access",
        TEXT,
        ALLOW_ALL,
        "The query for access to a vhost.",
    )
    resource_query: str = setting(
        "auth_ldap.resource_access_query auth_ldap.queries.resource_access",
        TEXT,
        ALLOW_ALL,
        "The query for the permission to configure, write or read a queue or an exchange.",
    )
    topic_query: str = setting(
        "auth_ldap.topic_access_query auth_ldap.queries.topic_access",
        TEXT,
        ALLOW_ALL,
        "The query for access to a routing key.",
    )
    tag_queries: tuple[tuple[str, str], ...] = named_setting(
        "auth_ldap.tag_queries.$tag", TEXT, "The query for a user tag, such as administrator."
    )
