"""The settings of logging in: mechanisms, and the backends that know users and permissions."""

from dataclasses import dataclass

from broker.config.declaration import listed_setting, named_setting
from broker.config.values import NAME


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
