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
_REASONS: Final = {
    400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 426: "Upgrade Required",
    431: "Request Header Fields Too Large",
}  # fmt: skip


class OpeningRefused(Exception):
    """A request opens no WebSocket. answer: what its client gets before the socket is closed."""

    def __init__(self, status: int, reason: str, *headers: str) -> None:
        super().__init__(reason)
        lines = (f"HTTP/1.1 {status} {_REASONS[status]}", *headers, "content-length: 0", "", "")
        self.answer = "\r\n".join(lines).encode()


class Offer(NamedTuple):
    """What a server opens. path: of its address. subprotocols: the best one first.

    needs_subprotocol: a client that offers none of them is refused.
    """

    path: str
    subprotocols: Sequence[str]
    needs_subprotocol: bool


class Opened(NamedTuple):
    """An opened WebSocket. answer: the server's. rest: what the client has sent already."""

    answer: bytes
    rest: bytes


def open_web_socket(data: bytes, offer: Offer) -> Opened | None:
    """Read the request in bytes that have come; None if it is not complete.

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
    return Opened("\r\n".join([*answer, "", ""]).encode(), data[end + len(_END) :])


def _headers(lines: list[str]) -> dict[str, str]:
    """The headers by their names in small letters; several with one name are a list."""
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
