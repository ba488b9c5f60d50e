"""AMQP URIs, as RabbitMQ's shovels and federation upstreams have them.

    amqps://user:password@host:5671/vhost?heartbeat=5&cacertfile=%2Fetc%2Fca.pem

User, password, host and vhost are percent-encoded, and so are the values of the options of TLS. A
URI without a host means the node itself. Without a path the vhost is the default one; a path of `/`
names the vhost whose name is empty. Query parameters that are not known are ignored. The rules and
the reasons of errors, which are Erlang terms, are those of `amqp_uri`, with these differences:

- values that cannot work are refused here, and not on use: unknown mechanisms and values of
  `verify`, and negative numbers;
- a password may contain `@` and `:`; RabbitMQ takes the rest for the host, or leaves it out;
- with amqps, `password` is the one of the private key only; RabbitMQ also logs in with it;
- no error contains a password.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from leveret.broker.erlang.terms import Atom, String, format_term

AMQP, AMQPS = "amqp", "amqps"
MECHANISMS: Final = ("plain", "amqplain", "external")
"""Values of `auth_mechanism`."""
VERIFY_PEER, VERIFY_NONE = "verify_peer", "verify_none"
DEFAULT_VHOST: Final = "/"
NOT_SHOWN: Final = "..."
_NUMBERS = ("channel_max", "frame_max", "heartbeat", "connection_timeout")
_FIELDS = (
    "username", "password", "virtual_host", "host", "port", *_NUMBERS, "ssl_options",
    "auth_mechanisms", "client_properties", "socket_options",
)  # fmt: skip
_FIELDS_OF_NODE = (
    "username", "password", "virtual_host", "node", "adapter_info", "client_properties"
)  # fmt: skip
"""RabbitMQ's settings of a connection; only the numbers and the password may be in a query."""
_BAD_ENTITY = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_DIGITS = re.compile("[0-9]{1,18}")
_INTEGER = re.compile("[+-]?[0-9]{1,18}")
_CREDENTIALS = re.compile(r"^([^:/@]*://)?.*@", re.DOTALL)
_PASSWORD = re.compile(r"(?<=[?&])password=[^&#]*", re.IGNORECASE)

Pairs = list[tuple[str, str]]
"""The parameters of a query. They may be repeated."""


@dataclass(frozen=True)
class TlsOptions:
    """The options of TLS. None or empty: not given. depth: the longest chain of certificates."""

    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""
    key_password: str = field(default="", repr=False)
    verify_peer: bool = False
    fail_if_no_peer_cert: bool = False
    server_name_indication: str = ""
    depth: int | None = None


@dataclass(frozen=True)
class AmqpUri:
    """The contents of a URI. None or empty: not given.

    host: None for the node itself. tls: None for `amqp`. mechanisms: those of `MECHANISMS`, in the
    order of the URI.
    """

    host: str | None = None
    port: int | None = None
    vhost: str = DEFAULT_VHOST
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    mechanisms: tuple[str, ...] = ()
    heartbeat_s: int | None = None
    connection_timeout_ms: int | None = None
    channel_max: int | None = None
    frame_max: int | None = None
    tls: TlsOptions | None = None


class UriError(ValueError):
    """A URI is not valid; the text says why, without user and password.

    reason: the reason, as an Erlang term.
    """

    def __init__(self, uri: str, reason: Any) -> None:
        shown = shown_uri(uri)
        super().__init__(f'"{shown}" not a valid URI: {format_term((reason, _string(shown)))}')
        self.reason = reason


class _InvalidError(Exception):
    """A part of a URI is not valid. reason: an Erlang term."""

    def __init__(self, *reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason if len(reason) > 1 else reason[0]


def shown_uri(uri: str) -> str:
    """A URI, possibly malformed, as errors show it: without user and passwords."""
    return _PASSWORD.sub(f"password={NOT_SHOWN}", _CREDENTIALS.sub(r"\1", uri))


def without_credentials(uri: str) -> str:
    """A URI for logs and status pages: its scheme, host, port and path."""
    try:
        scheme, authority, path, _ = _parts(uri)
        _, host, port = _authority(uri, authority)
    except _InvalidError:
        return shown_uri(uri).partition("?")[0]
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}{'' if port is None else f':{port}'}{path}"


def parse_uri(uri: str, default_vhost: str = DEFAULT_VHOST) -> AmqpUri:
    """The contents of a URI. Raises UriError."""
    try:
        return _parsed(uri, default_vhost)
    except _InvalidError as error:
        raise UriError(uri, _without_secrets(error.reason, shown_uri(uri))) from None


def _without_secrets(reason: Any, shown: str) -> Any:
    """A reason without the texts that `shown` lacks, which may be part of a password."""
    if isinstance(reason, tuple):
        return tuple(_without_secrets(one, shown) for one in reason)
    if isinstance(reason, list):
        return [_without_secrets(one, shown) for one in reason]
    if isinstance(reason, String):
        return _string(reason if reason in shown else NOT_SHOWN)
    return reason


def _string(text: str) -> Any:
    """A text in Erlang's form: an empty one is an empty list."""
    return String(text) if text else []


def _parsed(uri: str, default_vhost: str) -> AmqpUri:
    scheme, authority, path, query = _parts(uri)
    if scheme.lower() not in (AMQP, AMQPS):
        raise _InvalidError(Atom("unexpected_uri_scheme"), String(scheme.lower()))
    user_info, host, port = _authority(uri, authority)
    if port is not None and not 0 < port <= 65535:
        raise _InvalidError(Atom("port_out_of_range"), port)
    vhost = default_vhost
    if path:
        if "/" in path[1:]:
            raise _InvalidError(Atom("invalid_vhost"), String(path[1:]))
        vhost = _decoded(path[1:])
    pairs = [(key, value) for key, found, value in _split_query(query) if found]
    is_tls = scheme.lower() == AMQPS
    if not host and port is not None:
        raise _InvalidError(Atom("port_requires_host"))
    if not host and is_tls:
        raise _InvalidError(Atom("amqps_requires_host"))
    user, has_password, password = user_info.partition(":")
    numbers = _options(pairs, _FIELDS if host else _FIELDS_OF_NODE)
    return AmqpUri(
        host=_decoded(host) or None,
        port=port,
        vhost=vhost,
        user=_decoded(user) if user_info else None,
        password=_password(_decoded(password) if has_password else None, pairs, is_tls),
        mechanisms=_mechanisms(pairs) if host else (),
        heartbeat_s=numbers.get("heartbeat"),
        connection_timeout_ms=numbers.get("connection_timeout"),
        channel_max=numbers.get("channel_max"),
        frame_max=numbers.get("frame_max"),
        tls=_tls_options(pairs) if is_tls else None,
    )


def _parts(uri: str) -> tuple[str, str, str, str]:
    """Scheme, authority, path and query."""
    scheme, found, rest = uri.partition(":")
    if not found:
        raise _InvalidError(Atom("unable_to_parse_uri"), Atom("no_scheme"))
    rest = rest.partition("#")[0]
    before, _, query = rest.partition("?")
    if not before.startswith("//"):
        raise _malformed(uri, Atom("no_authority"))
    authority, slash, path = before[2:].partition("/")
    return scheme, authority, slash + path, query


def _authority(uri: str, authority: str) -> tuple[str, str, int | None]:
    """User and password, the host, which is empty if there is none, and the port."""
    user_info, _, place = authority.rpartition("@")
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _malformed(uri, (Atom("invalid_port"), String(rest)))
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = place.partition(":")
    if colon and not _DIGITS.fullmatch(port):
        raise _malformed(uri, (Atom("invalid_port"), String(port)))
    return user_info, host, int(port) if colon else None


def _malformed(uri: str, reason: Any) -> _InvalidError:
    malformed = (Atom("malformed_uri"), String(shown_uri(uri)), reason)
    return _InvalidError(Atom("unable_to_parse_uri"), malformed)


def _decoded(text: str) -> str:
    """A text without its percent-encoding."""
    wrong = _BAD_ENTITY.search(text)
    if wrong is not None:
        name = "invalid_entitiy" if len(wrong[1]) == 2 else "unterminated_entity"
        raise _InvalidError(Atom(name), String(wrong[0]))
    pieces = text.encode("utf-8", "surrogateescape").split(b"%")
    decoded = b"".join(bytes((int(one[:2], 16),)) + one[2:] for one in pieces[1:])
    return (pieces[0] + decoded).decode("utf-8", "surrogateescape")


# The query


def _split_query(query: str) -> list[tuple[str, str, str]]:
    return [one.partition("=") for one in query.split("&")]


def _value(pairs: Pairs, key: str) -> str | None:
    return next((value for name, value in pairs if name == key), None)


def _refused(kind: str, key: str, value: str, pairs: Pairs, reason: Any) -> _InvalidError:
    """A parameter is refused. RabbitMQ's reason contains the whole query."""
    query = [(String(name), String(_unless_password(name, text))) for name, text in pairs]
    shown = String(_unless_password(key, value))
    return _InvalidError(Atom(kind), Atom(key), shown, query, reason)


def _unless_password(key: str, value: str) -> str:
    return NOT_SHOWN if key.lower() == "password" else value


def _number(kind: str, key: str, value: str, pairs: Pairs) -> int:
    if not _INTEGER.fullmatch(value):
        raise _refused(kind, key, value, pairs, (Atom("not_an_integer"), String(value)))
    if int(value) < 0:
        raise _refused(kind, key, value, pairs, (Atom("negative"), String(value)))
    return int(value)


def _options(pairs: Pairs, fields: tuple[str, ...]) -> dict[str, int]:
    """The numbers. fields: RabbitMQ's settings of such a connection."""
    kind = "invalid_amqp_params_parameter"
    numbers = {}
    for key in fields:
        value = _value(pairs, key)
        if value is None or key == "password":
            continue
        if key not in _NUMBERS:
            reason = Atom("parameter_unconfigurable_in_query"), Atom(key), String(value)
            raise _refused(kind, key, value, pairs, reason)
        numbers[key] = _number(kind, key, value, pairs)
    return numbers


def _password(password: str | None, pairs: Pairs, is_tls: bool) -> str | None:
    in_query = None if is_tls else _value(pairs, "password")
    return password if in_query is None else in_query


def _mechanisms(pairs: Pairs) -> tuple[str, ...]:
    found = [value for key, value in pairs if key == "auth_mechanism"]
    for value in found:
        if value.lower() not in MECHANISMS:
            words = [Atom(word) for word in value.split(":") if word]
            raise _InvalidError(Atom("not_mechanism"), words)
    return tuple(value.lower() for value in found)


def _tls_options(pairs: Pairs) -> TlsOptions:
    kind = "invalid_ssl_parameter"
    texts = {}
    for key in (
        "cacertfile", "certfile", "keyfile", "verify", "fail_if_no_peer_cert", "password",
        "server_name_indication", "depth",
    ):  # fmt: skip
        value = _value(pairs, key)
        if value is None:
            continue
        try:
            texts[key] = _decoded(value)
        except _InvalidError as error:
            reason = Atom("invalid_entitiy") if key == "password" else error.reason
            raise _refused(kind, key, value, pairs, reason) from None
    allowed = {"verify": (VERIFY_PEER, VERIFY_NONE), "fail_if_no_peer_cert": ("true", "false")}
    for key, values in allowed.items():
        value = texts.get(key, values[1])
        if value not in values:
            name = "require_boolean" if key != "verify" else "require_verify_peer_or_verify_none"
            raise _refused(kind, key, value, pairs, (Atom(name), Atom(value)))
    depth = texts.get("depth")
    return TlsOptions(
        texts.get("cacertfile", ""), texts.get("certfile", ""), texts.get("keyfile", ""),
        texts.get("password", ""), texts.get("verify") == VERIFY_PEER,
        texts.get("fail_if_no_peer_cert") == "true", texts.get("server_name_indication", ""),
        None if depth is None else _number(kind, "depth", depth, pairs),
    )  # fmt: skip
