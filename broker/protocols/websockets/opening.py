"""The opening of a WebSocket: the client's HTTP request, and the answer to it. Pure."""

import base64
from collections.abc import Sequence
from hashlib import sha1
from typing import Final, NamedTuple

REQUEST_BYTES_MAX: Final = 16 * 1024
VERSIONS: Final = ("13", "8", "7")
_KEY_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_END: Final = b"\r\n\r\n"
_DEFLATE: Final = "permessage-deflate"
_DEFLATE_ACCEPTED: Final = f"{_DEFLATE}; server_no_context_takeover; client_no_context_takeover"
"""No context is kept between messages: it would take 300 KB for each client."""
_DEFLATE_PARAMETERS: Final = (
    "client_max_window_bits", "client_no_context_takeover", "server_no_context_takeover",
)  # fmt: skip
_REASONS: Final = {
    400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 426: "Upgrade Required",
    431: "Request Header Fields Too Large",
}  # fmt: skip


class OpeningRefused(Exception):
    """A request opens no WebSocket. answer: the response before the socket is closed."""

    def __init__(self, status: int, reason: str, *headers: str) -> None:
        super().__init__(reason)
        lines = (f"HTTP/1.1 {status} {_REASONS[status]}", *headers, "content-length: 0", "", "")
        self.answer = "\r\n".join(lines).encode()


class Offer(NamedTuple):
    """What a server opens. path: the path of its URL. subprotocols: in the order of preference.

    needs_subprotocol: a client that offers none of them is refused. uses_http_auth: name and
    password are read. compresses: messages may be compressed if the client offers it.
    """

    path: str
    subprotocols: Sequence[str]
    needs_subprotocol: bool
    uses_http_auth: bool = False
    compresses: bool = False


class Opened(NamedTuple):
    """An opened WebSocket. answer: the server's response. rest: bytes after the request.

    credentials: name and password from the request, or None.
    """

    answer: bytes
    rest: bytes
    is_compressed: bool = False
    credentials: tuple[str, str] | None = None


def open_web_socket(data: bytes, offer: Offer) -> Opened | None:
    """Read the request in the bytes so far; None if it is not complete.

    Raises OpeningRefused.
    """
    end = data.find(_END, 0, REQUEST_BYTES_MAX)
    if end < 0:
        if len(data) > REQUEST_BYTES_MAX:
            raise OpeningRefused(431, "the request is too large", "connection: close")
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    headers = _headers(lines)
    _check_address(first, offer)
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((name for name in offer.subprotocols if name in offered), None)
    if chosen is None and offer.needs_subprotocol:
        reason = f"it does not offer the subprotocol {offer.subprotocols[0]}"
        raise OpeningRefused(400, reason, "connection: close")
    _check_upgrade(headers)
    key = headers["sec-websocket-key"].encode("latin-1")
    accepted = base64.b64encode(sha1(key + _KEY_SUFFIX, usedforsecurity=False).digest())
    answer = [
        "HTTP/1.1 101 Switching Protocols", "connection: Upgrade", "upgrade: websocket",
        f"sec-websocket-accept: {accepted.decode()}",
    ]  # fmt: skip
    if chosen is not None:
        answer.append(f"sec-websocket-protocol: {chosen}")
    is_compressed = offer.compresses and _offers_deflate(headers)
    if is_compressed:
        answer.append(f"sec-websocket-extensions: {_DEFLATE_ACCEPTED}")
    credentials = _basic_credentials(headers) if offer.uses_http_auth else None
    rest = data[end + len(_END) :]
    return Opened("\r\n".join([*answer, "", ""]).encode(), rest, is_compressed, credentials)


def _offers_deflate(headers: dict[str, str]) -> bool:
    """Whether the client offers an extension that the answer fits to (RFC 7692, 7.1)."""
    for offer in headers.get("sec-websocket-extensions", "").split(","):
        name, *parameters = (word.strip() for word in offer.split(";"))
        if name == _DEFLATE and not any(map(_limits_server, parameters)):
            return True
    return False


def _limits_server(parameter: str) -> bool:
    """Whether a parameter of an offer is unknown, or would have to be repeated in the answer."""
    return parameter.partition("=")[0].strip() not in _DEFLATE_PARAMETERS


def _basic_credentials(headers: dict[str, str]) -> tuple[str, str] | None:
    authorization = headers.get("authorization")
    if authorization is None:
        return None
    scheme, _, encoded = authorization.partition(" ")
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:
        decoded = ""
    name, colon, password = decoded.partition(":")
    if scheme.lower() != "basic" or not colon:
        reason = "its header Authorization has no name and password (HTTP basic authentication)"
        raise OpeningRefused(400, reason, "connection: close")
    return name, password


def _headers(lines: list[str]) -> dict[str, str]:
    """The headers by their lower-case names; the values of repeated headers are a list."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise OpeningRefused(400, "it has a malformed header", "connection: close")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _check_address(first: str, offer: Offer) -> None:
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if version != "HTTP/1.1":
        raise OpeningRefused(400, "it is not HTTP/1.1", "connection: close")
    if target.partition("?")[0] not in (offer.path, f"{offer.path}/"):
        raise OpeningRefused(404, f"nothing is at {target!r}", "connection: close")
    if method != "GET":
        raise OpeningRefused(405, f"its method is {method!r}", "connection: close", "allow: GET")


def _check_upgrade(headers: dict[str, str]) -> None:
    if "websocket" not in headers.get("upgrade", "").lower():
        reason = "it does not ask for a WebSocket"
        raise OpeningRefused(426, reason, "connection: upgrade", "upgrade: websocket")
    if "upgrade" not in headers.get("connection", "").lower():
        raise OpeningRefused(400, "its connection is not upgraded", "connection: close")
    if headers.get("sec-websocket-version") not in VERSIONS:
        reason = "it has an unknown version of WebSockets"
        raise OpeningRefused(400, reason, "connection: close", "sec-websocket-version: 13")
    if not _is_key(headers.get("sec-websocket-key", "")):
        raise OpeningRefused(400, "it has no proper key", "connection: close")


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except ValueError:
        return False
