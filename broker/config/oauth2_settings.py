"""The settings of the OAuth 2 backend (broker/auth/backends/oauth2.py)."""

from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import listed_setting, named_setting, setting
from leveret.broker.config.tls_settings import VERIFY
from leveret.broker.config.value_kinds import BOOLEAN, NAME, PATH, TEXT


@dataclass(frozen=True)
class OAuth2Settings:
    """`config.oauth2`."""

    resource_server_id: str = setting(
        "auth_oauth2.resource_server_id",
        TEXT,
        "",
        "The name of this node in tokens: their audience must contain it, and their scopes begin "
        "with it.",
        default_text="none",
    )
    scope_prefix: str | None = setting(
        "auth_oauth2.scope_prefix",
        TEXT,
        None,
        "The prefix of scopes that are for this node.",
        default_text="resource_server_id and a dot",
    )
    additional_scopes_key: str = setting(
        "auth_oauth2.additional_scopes_key",
        TEXT,
        "",
        "Further claims that contain scopes, separated by blanks; a dot separates nested names.",
        default_text="none",
    )
    scope_aliases: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$alias",
        TEXT,
        "The scopes, separated by blanks, that this alias stands for.",
    )
    numbered_aliases: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$number.alias",
        NAME,
        "The name of an alias that cannot be a word of a key.",
    )
    numbered_scopes: tuple[tuple[str, str], ...] = named_setting(
        "auth_oauth2.scope_aliases.$number.scope",
        TEXT,
        "The scopes that the alias with the same number stands for.",
    )
    resource_server_type: str = setting(
        "auth_oauth2.resource_server_type",
        TEXT,
        "",
        "The type of the authorization_details in a token that are for this node.",
        default_text="none",
    )
    username_claims: tuple[str, ...] = listed_setting(
        "auth_oauth2.preferred_username_claims.$number",
        NAME,
        (),
        "Claims that contain the user name, in order of preference; sub and client_id come last.",
        default_text="none",
    )
    verify_audience: bool = setting(
        "auth_oauth2.verify_aud", BOOLEAN, True, "Whether a token's audience is checked."
    )
    algorithms: tuple[str, ...] = listed_setting(
        "auth_oauth2.algorithms.$number",
        NAME,
        (),
        "The signature algorithms that are accepted.",
        default_text="all of the key's type",
    )
    signing_keys: tuple[tuple[str, Path], ...] = named_setting(
        "auth_oauth2.signing_keys.$id", PATH, "The files of the keys that sign tokens, by key id."
    )
    default_key: str = setting(
        "auth_oauth2.default_key",
        NAME,
        "",
        "The id of the key for tokens without a key id.",
        default_text="none",
    )
    jwks_url: str = setting(
        "auth_oauth2.jwks_url",
        TEXT,
        "",
        "The URL at which the keys are published.",
        default_text="none",
    )
    issuer: str = setting(
        "auth_oauth2.issuer",
        TEXT,
        "",
        "The issuer; its openid-configuration contains the URL of the keys.",
        default_text="none",
    )
    https_cacertfile: Path | None = setting(
        "auth_oauth2.https.cacertfile",
        PATH,
        None,
        "The authorities that the issuer's certificate is checked against.",
        default_text="the system's",
    )
    https_verify: str = setting(
        "auth_oauth2.https.verify auth_oauth2.https.peer_verification",
        VERIFY,
        "verify_peer",
        "Whether the issuer's certificate is checked.",
    )
