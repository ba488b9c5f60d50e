"""The settings of the LDAP backend (broker/auth/backends/ldap.py).

RabbitMQ has its queries in advanced.config, as Erlang terms. Here they are settings whose text is
such a term; everything else has RabbitMQ's keys.
"""

from dataclasses import dataclass
from pathlib import Path

from broker.config.declaration import listed_setting, named_setting, setting
from broker.config.values import (
    BOOLEAN,
    MILLISECONDS,
    NAME,
    PATH,
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
    """What `Config` has of them."""

    # Servers
    auth_ldap_servers: tuple[str, ...] = listed_setting(
        "auth_ldap.servers.$number",
        NAME,
        (),
        "The LDAP servers: the first that can be reached is asked.",
        default_text="none",
    )
    auth_ldap_port: int = setting(
        "auth_ldap.port", whole_number(minimum=1, maximum=65_535), 389, "Their port."
    )
    auth_ldap_timeout_ms: int | None = setting(
        "auth_ldap.timeout",
        unless(MILLISECONDS, "infinity"),
        10_000,
        "How long they may take to connect, and to answer.",
    )
    auth_ldap_pool_size: int = setting(
        "auth_ldap.connection_pool_size",
        whole_number("connections", minimum=1),
        64,
        "How many connections there may be to them; each has a thread.",
    )
    auth_ldap_idle_timeout_ms: int | None = setting(
        "auth_ldap.idle_timeout",
        unless(whole_number("milliseconds"), "infinity"),
        300_000,
        "How long a connection that is not used is kept; 0 keeps none.",
    )
    auth_ldap_log: str = setting(
        "auth_ldap.log",
        one_of("true", "false", "network", "network_unsafe"),
        "false",
        "Log every decision; what goes over the network is never logged.",
    )
    auth_ldap_use_ssl: bool = setting("auth_ldap.use_ssl", BOOLEAN, False, "Speak TLS with them.")
    auth_ldap_use_starttls: bool = setting(
        "auth_ldap.use_starttls", BOOLEAN, False, "Begin TLS on a plain connection."
    )
    auth_ldap_tls_cacertfile: Path | None = setting(  # noqa: RUF009
        "auth_ldap.ssl_options.cacertfile",
        PATH,
        None,
        "The authorities of their certificates.",
        default_text="the system's",
    )
    auth_ldap_tls_certfile: Path | None = setting(  # noqa: RUF009
        "auth_ldap.ssl_options.certfile", PATH, None, "The node's certificate for them."
    )
    auth_ldap_tls_keyfile: Path | None = setting(  # noqa: RUF009
        "auth_ldap.ssl_options.keyfile",
        PATH,
        None,
        "The key of that.",
        default_text="in the certificate's file",
    )
    auth_ldap_tls_password: str = setting(
        "auth_ldap.ssl_options.password", TEXT, "", "The password of the key.", is_secret=True
    )
    auth_ldap_tls_verify: str = setting(
        "auth_ldap.ssl_options.verify",
        one_of("verify_peer", "verify_none"),
        "verify_peer",
        "Whether their certificates are checked.",
    )
    auth_ldap_tls_sni: str = setting(
        "auth_ldap.ssl_options.sni",
        TEXT,
        "",
        "The name that a certificate may have instead of the server's; none is no name.",
        default_text="none",
    )

    # Users
    auth_ldap_user_dn_pattern: str = setting(
        "auth_ldap.user_dn_pattern",
        TEXT,
        "${username}",
        "The distinguished name of a user; ${username} is filled in.",
    )
    auth_ldap_user_bind_pattern: str = setting(
        "auth_ldap.user_bind_pattern",
        TEXT,
        "",
        "What a user logs in to the directory with.",
        default_text="user_dn_pattern",
    )
    auth_ldap_dn_lookup_attribute: str = setting(
        "auth_ldap.dn_lookup_attribute",
        TEXT,
        "none",
        "The attribute by which a user's entry is looked up: it has what user_dn_pattern makes.",
    )
    auth_ldap_dn_lookup_base: str = setting(
        "auth_ldap.dn_lookup_base", TEXT, "none", "The entry below which users are looked up."
    )
    auth_ldap_dn_lookup_bind: str = setting(
        "auth_ldap.dn_lookup_bind",
        BIND,
        AS_USER,
        "Who looks users up: as_user after logging in as the user, anon before it.",
    )
    auth_ldap_dn_lookup_bind_dn: str = setting(
        "auth_ldap.dn_lookup_bind.user_dn",
        TEXT,
        "",
        "The entry that looks users up, before they log in, rather than dn_lookup_bind.",
        default_text="none",
    )
    auth_ldap_dn_lookup_bind_password: str = setting(
        "auth_ldap.dn_lookup_bind.password", TEXT, "", "The password of that.", is_secret=True
    )
    auth_ldap_group_lookup_base: str = setting(
        "auth_ldap.group_lookup_base",
        TEXT,
        "none",
        "The entry below which in_group_nested looks for groups.",
        default_text="dn_lookup_base, or where the group is",
    )

    # Queries
    auth_ldap_bind: str = setting(
        "auth_ldap.other_bind", BIND, AS_USER, "Who asks the queries: as_user or anon."
    )
    auth_ldap_bind_dn: str = setting(
        "auth_ldap.other_bind.user_dn",
        TEXT,
        "",
        "The entry that asks the queries, rather than other_bind.",
        default_text="none",
    )
    auth_ldap_bind_password: str = setting(
        "auth_ldap.other_bind.password", TEXT, "", "The password of that.", is_secret=True
    )
    auth_ldap_vhost_query: str = setting(
        "auth_ldap.vhost_access_query", TEXT, ALLOW_ALL, "Who may open a vhost."
    )
    auth_ldap_resource_query: str = setting(
        "auth_ldap.resource_access_query",
        TEXT,
        ALLOW_ALL,
        "Who may configure, write or read a queue or an exchange.",
    )
    auth_ldap_topic_query: str = setting(
        "auth_ldap.topic_access_query", TEXT, ALLOW_ALL, "Who may use a routing key."
    )
    auth_ldap_tag_queries: tuple[tuple[str, str], ...] = named_setting(
        "auth_ldap.tag_queries.$tag", TEXT, "Who has a tag, such as administrator."
    )
