"""STOMP frames: splits the bytes of a client into frames, and encodes frames. Pure, and compiled.

A frame is a command, headers, an empty line, a body, and a NUL byte. The part before the body is
its head. A body has the size that the header content-length gives, or ends at the first NUL.

The heads of a publisher are mostly equal, byte by byte, but for their receipts. So a head that is
likely to come again is parsed once and kept by its bytes without those of the header `receipt`,
together with the result of handling it (`Head.use`).

Limits are checked before a body is kept: a head has at most `HEAD_BYTES_MAX` bytes and
`HEADERS_MAX` headers, and a frame at most `FrameScanner.frame_bytes_max` bytes.
"""

import re
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 1000
KEPT_HEADS_MAX: Final = 32
KEPT_HEAD_BYTES_MAX: Final = 1024
"""Heads that are kept for one client, and the largest of them."""
SEND: Final = "SEND"
CONTENT_LENGTH: Final = "content-length"
RECEIPT: Final = "receipt"
_RECEIPT_HEAD: Final = b"RECEIPT\nreceipt-id:"
_SEND_LINE: Final = b"SEND\n"
_RECEIPT_LINE: Final = b"\nreceipt:"
NUL: Final = b"\0"
FRAME_END: Final = b"\0\n"
"""RabbitMQ ends a frame with a line break by default."""
_NUL_BYTE: Final = 0
_BETWEEN_FRAMES: Final = b"\n\r\0"
_UNKNOWN_SIZE: Final = -1
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_UNESCAPED: Final = {"n": "\n", "r": "\r", "c": ":", "\\": "\\"}
_ESCAPED: Final = str.maketrans({"\n": "\\n", "\r": "\\r", ":": "\\c", "\\": "\\\\"})


class MalformedFrame(Exception):
    """The bytes are not a frame of STOMP, or exceed a limit; the text says why."""


class Head:
    """The part of a frame before its body.

    headers: the values by name, without the receipt; the first one counts if a name is repeated.
    body_bytes: -1 if the body ends at the first NUL. receipt: None if no receipt is wanted.
    """

    __slots__ = ("_kept", "body_bytes", "command", "headers", "receipt", "use")

    def __init__(
        self, command: str, headers: dict[str, str], body_bytes: int, receipt: str | None = None
    ) -> None:
        self.command = command
        self.headers = headers
        self.body_bytes = body_bytes
        self.receipt = receipt
        self.use: object = None
        """Set by `keep_use`, now or for an earlier head that differs in its receipt at most."""
        self._kept: Head | None = None

    def with_receipt(self, receipt: str) -> "Head":
        """A head that differs from this one in its receipt only."""
        head = Head(self.command, self.headers, self.body_bytes, receipt)
        head.use = self.use
        head._kept = self
        return head

    def keep_use(self, use: object) -> None:
        """Keep the result of handling this head for later ones that are equal to it."""
        kept = self if self._kept is None else self._kept
        kept.use = use


class FrameScanner:
    """The bytes of one client that are not handled yet.

    frame_bytes_max: the largest frame. trims_values: leading blanks of header values are ignored,
    as in STOMP 1.0. head, body: the frame that was taken.
    """

    __slots__ = (
        "_at", "_has_head", "_head_bytes", "_heads", "_pieces", "_pieces_bytes", "_searched",
        "_unread", "body", "frame_bytes_max", "head", "trims_values",
    )  # fmt: skip

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.trims_values = False
        self.head = Head("", {}, 0)
        self.body = b""
        self._unread = b""
        self._at = 0
        """Where in `_unread` the next frame begins."""
        self._heads: dict[bytes, Head] = {}
        self._head_bytes = 0
        self._has_head = False
        """The head is complete; `_pieces` has the part of the body that was read."""
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._searched = 0
        """The pieces that have no NUL."""

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        if self._has_head:
            self._pieces.append(data)
            self._pieces_bytes += len(data)
        elif self._at < len(self._unread):
            self._unread, self._at = self._unread[self._at :] + data, 0
        else:
            self._unread, self._at = data, 0

    def clear(self) -> None:
        """Forget all bytes: the connection ends."""
        self._unread, self._at = b"", 0
        self._pieces, self._pieces_bytes, self._has_head = [], 0, False
        self._heads.clear()

    def take(self) -> bool:
        """Go to the next frame; returns False if it is not complete. Raises MalformedFrame."""
        if self._has_head:
            return self._take_pieces()
        data, at = self._unread, self._at
        size = len(data)
        while at < size and data[at] in _BETWEEN_FRAMES:
            at += 1
        if at == size:
            self._unread, self._at = b"", 0
            return False
        self._at = at
        end = data.find(b"\n\n", at, at + HEAD_BYTES_MAX + 2)
        begin = end + 2
        # The lines of the head end with CR LF, and an empty line of the body may follow.
        other = data.find(b"\n\r\n", at, end if end >= 0 else at + HEAD_BYTES_MAX + 3)
        if other >= 0:
            end, begin = other, other + 3
        if end < 0:
            if size - at > HEAD_BYTES_MAX:
                raise MalformedFrame(f"its headers have more than {HEAD_BYTES_MAX} bytes")
            return False
        head = self._parse(data[at:end])
        self.head = head
        if head.body_bytes >= 0:
            self._check_size(begin - at + head.body_bytes)
            stop = begin + head.body_bytes
            if stop < size:
                if data[stop] != _NUL_BYTE:
                    raise MalformedFrame("its body is longer than its content-length")
                self.body = data[begin:stop]
                self._at = stop + 1
                return True
        else:
            stop = data.find(b"\0", begin)
            if stop >= 0:
                self._check_size(stop - at)
                self.body = data[begin:stop]
                self._at = stop + 1
                return True
            self._check_size(size - at)
        self._has_head = True
        self._head_bytes = begin - at
        self._pieces = [data[begin:]]
        self._pieces_bytes = size - begin
        self._searched = 1
        self._unread, self._at = b"", 0
        return False

    def _take_pieces(self) -> bool:
        """Take a frame whose body has come in several reads."""
        size = self.head.body_bytes
        if size == _UNKNOWN_SIZE:
            size = self._find_end()
            if size < 0:
                self._check_size(self._head_bytes + self._pieces_bytes)
                return False
            self._check_size(self._head_bytes + size)
        elif self._pieces_bytes <= size:
            return False
        data = b"".join(self._pieces)
        if data[size] != _NUL_BYTE:
            raise MalformedFrame("its body is longer than its content-length")
        self.body = data[:size]
        self._unread, self._at = data, size + 1
        self._pieces, self._has_head = [], False
        return True

    def _find_end(self) -> int:
        """The size of a body that ends at the first NUL; -1 if that has not come."""
        pieces = self._pieces
        while self._searched < len(pieces):
            place = pieces[self._searched].find(b"\0")
            if place >= 0:
                return sum([len(piece) for piece in pieces[: self._searched]]) + place
            self._searched += 1
        return -1

    def _check_size(self, frame_bytes: int) -> None:
        if frame_bytes > self.frame_bytes_max:
            raise MalformedFrame(
                f"it has {frame_bytes} bytes, and the limit is {self.frame_bytes_max}"
            )

    def _parse(self, data: bytes) -> Head:
        """The head with these bytes, without its empty line."""
        known = self._heads.get(data)
        if known is not None:
            return known
        place = data.find(_RECEIPT_LINE)
        if place >= 0 and data.startswith(_SEND_LINE):
            return self._parse_with_receipt(data, place)
        head = parse_head(data, self.trims_values)
        if place < 0:
            self._keep(data, head)
        return head

    def _parse_with_receipt(self, data: bytes, place: int) -> Head:
        """The head of a SEND with a receipt. place: where its line begins."""
        end = data.find(b"\n", place + 1)
        line = data[place:] if end < 0 else data[place:end]
        if b"\\" in line or b"\r" in line:
            return parse_head(data, self.trims_values)
        # No head without a receipt has these bytes: line breaks before a head are skipped.
        others = b"\n" + data[:place] + data[place + len(line) :]
        known = self._heads.get(others)
        if known is None:
            parsed = parse_head(data, self.trims_values)
            known = Head(SEND, parsed.headers, parsed.body_bytes)
            self._keep(others, known)
            return known.with_receipt(parsed.receipt or "")
        receipt = line[len(_RECEIPT_LINE) :].decode("utf-8", "surrogateescape")
        return known.with_receipt(receipt.lstrip(" ") if self.trims_values else receipt)

    def _keep(self, data: bytes, head: Head) -> None:
        """Keep the head with these bytes if it is likely to come again."""
        if head.command == SEND and len(data) <= KEPT_HEAD_BYTES_MAX:
            if len(self._heads) >= KEPT_HEADS_MAX:
                self._heads.clear()
            self._heads[data] = head


def parse_head(data: bytes, trims_values: bool) -> Head:
    """The head with these bytes. Raises MalformedFrame."""
    text = data.decode("utf-8", "surrogateescape")
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
        if "\r" in text:
            raise MalformedFrame("it has a carriage return that is not at the end of a line")
    lines = text.split("\n")
    if len(lines) > HEADERS_MAX:
        raise MalformedFrame(f"it has more than {HEADERS_MAX} headers")
    headers: dict[str, str] = {}
    has_escapes = "\\" in text
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise MalformedFrame("it has a header without a colon")
        if has_escapes:
            name, value = _unescape(name), _unescape(value)
        if name not in headers:
            headers[name] = value.lstrip(" ") if trims_values else value
    receipt = headers.pop(RECEIPT, None)
    return Head(lines[0], headers, _body_bytes(headers), receipt)


def _body_bytes(headers: dict[str, str]) -> int:
    value = headers.get(CONTENT_LENGTH)
    if value is None:
        return _UNKNOWN_SIZE
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise MalformedFrame("its content-length is not a number of bytes")
    return int(digits)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    character = _UNESCAPED.get(match[1])
    if character is None:
        raise MalformedFrame("it has an unknown escape in a header")
    return character


def escape(text: str) -> str:
    """The name or the value of a header, as in a frame."""
    if ":" in text or "\\" in text or "\n" in text or "\r" in text:
        return text.translate(_ESCAPED)
    return text


def encode_headers(headers: dict[str, str]) -> bytes:
    """The lines of headers."""
    lines = [f"{escape(name)}:{escape(value)}\n" for name, value in headers.items()]
    return "".join(lines).encode("utf-8", "surrogateescape")


def encode_frame(
    command: str, headers: dict[str, str], body: bytes = b"", end: bytes = FRAME_END
) -> bytes:
    """A frame. It has the header content-length unless its body is empty."""
    size = b"content-length:%d\n" % len(body) if body else b""
    return b"%b\n%b%b\n%b%b" % (command.encode(), encode_headers(headers), size, body, end)


def encode_receipt(receipt: str, end: bytes) -> bytes:
    """The frame RECEIPT."""
    return _RECEIPT_HEAD + escape(receipt).encode("utf-8", "surrogateescape") + b"\n\n" + end
