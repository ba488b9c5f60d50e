"""Makes lines of the blocks of a trace log (block_format.py): a JSON object for each record.

For readers of logs, which know no other part of a broker.
"""

import base64
import json
import struct
from typing import Final

from leveret.broker.amqp.field_table import FieldTableError
from leveret.broker.amqp.properties import PropertiesError, decode_properties
from leveret.broker.tracing import record
from leveret.broker.tracing.block_format import (
    ACK,
    ACK_FIELDS,
    BODY,
    DELIVER,
    DELIVER_FIELDS,
    LENGTH,
    MAGIC,
    PROPERTIES,
    PUBLISH,
    PUBLISH_FIELDS,
    RECORD,
    TEXT,
    VERSION,
)
from leveret.broker.tracing.shown import json_of, properties_shown

PLAIN = len(MAGIC) + LENGTH.size
"""Bytes of a block before its header."""
_PUBLISH_BYTES: Final = 1 + PUBLISH_FIELDS.size
_DELIVER_BYTES: Final = 1 + DELIVER_FIELDS.size
_ACK_BYTES: Final = 1 + ACK_FIELDS.size
_LENGTH_BYTES: Final = 1 + LENGTH.size


class BlockError(ValueError):
    """The block cannot be read. The message says why."""


class NewerBlockError(BlockError):
    """The block has a version of the format that this reader does not know."""


class RecordBlock:
    """A block that was read from a file. Raises BlockError.

    data: its bytes. records: the number of its records. from_us, to_us: the times of the first and
    the last.
    """

    __slots__ = (
        "_entries_at", "_node", "_sample", "_vhost", "data", "from_us", "records", "to_us",
    )  # fmt: skip

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise BlockError("does not begin like a block of a trace log")
        try:
            (size,) = LENGTH.unpack_from(data, len(MAGIC))
            header = json.loads(data[PLAIN : PLAIN + size])
            version = header["version"]
            if version > VERSION:
                raise NewerBlockError(f"is of version {version}; the latest supported is {VERSION}")
            self._node: str = header["node"]
            self._vhost: str = header["vhost"]
            self._sample: int = header["sample"]
            self.records: int = header["records"]
            self.from_us: int = header["from_us"]
            self.to_us: int = header["to_us"]
        except (struct.error, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
            raise BlockError("has a block without a valid header") from None
        self.data = data
        self._entries_at = PLAIN + size

    def header_line(self) -> bytes:
        """The header line, with which a log of lines begins."""
        header = {
            "event": record.HEADER, "node": self._node, "vhost": self._vhost,
            "version": record.VERSION, "sample": self._sample, "time_us": self.from_us,
        }  # fmt: skip
        return f"{json_of(header)}\n".encode()

    def entries(self) -> list[int]:
        """The offset of each entry, for readers that need no lines. Raises BlockError."""
        data, at, end = self.data, self._entries_at, len(self.data)
        found: list[int] = []
        while at + _LENGTH_BYTES <= end:
            found.append(at)
            kind = data[at]
            if kind == PUBLISH:
                at += _PUBLISH_BYTES
            elif kind == DELIVER:
                at += _DELIVER_BYTES
            elif kind == ACK:
                at += _ACK_BYTES
            else:
                size = data[at + 1] | data[at + 2] << 8 | data[at + 3] << 16 | data[at + 4] << 24
                at += _LENGTH_BYTES + size
        if at != end:
            raise BlockError("has a block with an invalid entry")
        return found

    def lines(self) -> bytes:
        """A line for each record."""
        try:
            lines = self._lines()
        except BlockError:
            raise
        except (struct.error, IndexError, ValueError, FieldTableError, PropertiesError):
            raise BlockError("has a block with an invalid entry") from None
        if len(lines) != self.records:
            raise BlockError(f"has a block of {len(lines)} records instead of {self.records}")
        return "".join(lines).encode()

    def _lines(self) -> list[str]:
        data, at, end = self.data, self._entries_at, len(self.data)
        texts: list[str] = []
        properties: list[str] = []
        lines: list[str] = []
        body = ""
        while at < end:
            kind = data[at]
            at += 1
            if kind == PUBLISH:
                start, about, shown, time, number, size = PUBLISH_FIELDS.unpack_from(data, at)
                at += PUBLISH_FIELDS.size
                lines.append(
                    f'{texts[start]}{time},"message":{number},"body_size":{size}'
                    f"{texts[about]}{properties[shown]}{body}}}\n"
                )
                body = ""
            elif kind == DELIVER:
                start, about, shown, time, number, size, tag, redelivered = (
                    DELIVER_FIELDS.unpack_from(data, at)
                )
                at += DELIVER_FIELDS.size
                lines.append(
                    f'{texts[start]}{time},"message":{number},"delivery_tag":{tag}'
                    f',"redelivered":{"true" if redelivered else "false"},"body_size":{size}'
                    f"{texts[about]}{properties[shown]}{body}}}\n"
                )
                body = ""
            elif kind == ACK:
                start, time, number, tag = ACK_FIELDS.unpack_from(data, at)
                at += ACK_FIELDS.size
                lines.append(f'{texts[start]}{time},"message":{number},"delivery_tag":{tag}}}\n')
            else:
                (size,) = LENGTH.unpack_from(data, at)
                at += LENGTH.size
                piece = data[at : at + size]
                at += size
                if kind == PROPERTIES:
                    properties.append(json_of(properties_shown(decode_properties(piece))))
                elif kind == TEXT:
                    texts.append(piece.decode())
                elif kind == RECORD:
                    lines.append(piece.decode())
                elif kind == BODY:
                    body = f',"body":"{base64.b64encode(piece).decode()}"'
                else:
                    raise BlockError(f"has an entry of the unknown kind {kind}")
        return lines
