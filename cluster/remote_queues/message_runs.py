"""Runs of messages between nodes: raw bytes, one record a message, written and read in one loop.

Numbers are little-endian. A record begins with an octet of flags, and leaves out fields equal to
those of the record before it:

    flags     u8        the constants below
    address   u16, ...  exchange and routing key as short strings, unless SAME_ADDRESS
    number    u64       of the message, if NUMBERED
    left      i64       the milliseconds until it expires, if EXPIRES: the clocks of nodes differ
    header    u32, ...  the properties, unless SAME_HEADER; as they are stored if AS_STORED
    body      u32, ...

A body above `COPIED_BYTES_MAX` is sent without a copy, as a piece of its own.

Reading checks everything: that the properties can be decoded, and that no length exceeds the
remaining bytes. Anything else raises `RunError`.
"""

from collections.abc import Sequence
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

from leveret.broker.amqp.content_header import ContentHeader, read_stored
from leveret.broker.amqp.properties import scan
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Entry, Message

SAME_ADDRESS: Final = 1
SAME_HEADER: Final = 2
NUMBERED: Final = 4
KEPT: Final = 8
"""The message survives a restart with any delivery mode (`ContentHeader.is_kept`)."""
AS_STORED: Final = 16
"""The properties have what consumers do not see: keys of BCC, which the home node needs, or the
form of another protocol."""
REDELIVERED: Final = 32
EXPIRES: Final = 64
EXPIRY_FEATURE: Final = "deliveries_expire"
"""The feature of nodes that take `EXPIRES`."""
_EVERY_FLAG: Final = 127

COPIED_BYTES_MAX: Final = 16 * 1024
REUSED_BYTES_MAX: Final = 1024 * 1024
"""A larger buffer is freed after its run."""
_free: Final[list[BytesWriter]] = []
"""The buffer of the last run: a new one would be copied each time that it grows."""


class RunError(ValueError):
    """The bytes are not a run of messages."""


class RunWriter:
    """Writes the records of one run after the start of its frame.

    body_bytes: the sum of the sizes of the written bodies.
    """

    __slots__ = (
        "_address", "_header", "_is_kept", "_left_ms", "_pieces", "_writer", "body_bytes",
    )  # fmt: skip

    def __init__(self, start: bytes, is_kept: bool = False) -> None:
        """is_kept: every message is to survive a restart, whatever its delivery mode is."""
        self._is_kept = is_kept
        self._writer = _free.pop() if _free else BytesWriter()
        self._writer.write(start)
        self._pieces: list[bytes] = []
        self._address: Address | None = None
        self._header: ContentHeader | None = None
        self._left_ms: i64 = 0
        self.body_bytes: i64 = 0

    def publish(self, messages: list[Message]) -> list[bytes]:
        """The pieces of a frame with messages on their way to a queue."""
        for message in messages:
            self._write(message, 0, True)
        return self._end()

    def deliver(self, entries: Sequence[Entry], now_ms: int) -> list[bytes]:
        """The pieces of a frame with messages on their way to a consumer.

        now_ms: the time; 0 if the other node does not take `EXPIRES` (EXPIRY_FEATURE).
        """
        for entry in entries:
            flags: i64 = REDELIVERED if entry.redelivered else 0
            if entry.expires_at_ms and now_ms:
                flags |= EXPIRES
                self._left_ms = max(1, entry.expires_at_ms - now_ms)
            self._write(entry.message, flags, False)
        return self._end()

    def copy(self, entries: Sequence[Entry]) -> list[bytes]:
        """The pieces of a frame with a queue's messages on their way to another member of it."""
        for entry in entries:
            self._write(entry.message, REDELIVERED if entry.redelivered else 0, True)
        return self._end()

    def _write(self, message: Message, flags: i64, is_stored: bool) -> None:
        writer = self._writer
        address, body, number = message.address, message.body, message.number
        header = message.header
        assert isinstance(header, ContentHeader), "messages are made with content headers"
        properties = header.raw
        if address is self._address:
            flags |= SAME_ADDRESS
        if header is self._header:
            flags |= SAME_HEADER
        elif is_stored or header.form is not None:
            if header.is_kept or self._is_kept:
                flags |= KEPT
            if header.stored is not properties:
                flags |= AS_STORED
                properties = header.stored
        if number:
            flags |= NUMBERED
        writer.append(flags)
        if not flags & SAME_ADDRESS:
            self._address = address
            write_i16_le(writer, len(address.encoded))
            writer.write(address.encoded)
        if flags & NUMBERED:
            write_i64_le(writer, number)
        if flags & EXPIRES:
            write_i64_le(writer, self._left_ms)
        if not flags & SAME_HEADER:
            self._header = header
            write_i32_le(writer, len(properties))
            writer.write(properties)
        size: i64 = len(body)
        write_i32_le(writer, i32(size))
        self.body_bytes += size
        if size <= COPIED_BYTES_MAX:
            writer.write(body)
            return
        self._pieces.append(writer.getvalue())
        writer.truncate(0)
        self._pieces.append(body)

    def _end(self) -> list[bytes]:
        writer = self._writer
        if len(writer):
            self._pieces.append(writer.getvalue())
        if len(writer) <= REUSED_BYTES_MAX and not _free:
            writer.truncate(0)
            _free.append(writer)
        return self._pieces


class RunReader:
    """Reads the records of one run. Raises RunError for other bytes.

    addresses: shared by all runs that are read, so that equal addresses are one object.
    body_bytes: the sum of the sizes of the bodies read.
    """

    __slots__ = (
        "_address", "_addresses", "_data", "_flags", "_header", "_left_ms", "_position",
        "body_bytes",
    )  # fmt: skip

    def __init__(self, data: bytes, position: int, addresses: Addresses) -> None:
        self._data = data
        self._position: i64 = position
        self._flags: i64 = 0
        self._left_ms: i64 = 0
        self._addresses = addresses
        self._address: Address | None = None
        self._header: ContentHeader | None = None
        self.body_bytes: i64 = 0

    def messages(self, count: int) -> list[Message]:
        """The rest of the run, which has to be exactly `count` messages."""
        messages: list[Message] = []
        try:
            for _ in range(count):
                messages.append(self._read())
        except (IndexError, ValueError) as error:
            raise RunError(f"record {len(messages)} of a run of messages: {error}") from None
        self._check_end()
        return messages

    def entries(self, count: int, first_position: int, now_ms: int = 0) -> list[Entry]:
        """The rest of the run: exactly `count` deliveries, with positions that count up.

        now_ms: the time, for those that expire.
        """
        entries: list[Entry] = []
        position: i64 = first_position
        try:
            for _ in range(count):
                message = self._read()
                flags = self._flags
                expires_at_ms = now_ms + int(self._left_ms) if flags & EXPIRES else 0
                entries.append(Entry(message, position, flags & REDELIVERED != 0, expires_at_ms))
                position += 1
        except (IndexError, ValueError) as error:
            raise RunError(f"record {len(entries)} of a run of deliveries: {error}") from None
        self._check_end()
        return entries

    def some_entries(self, count: int, first_position: int, redelivered: bool) -> list[Entry]:
        """The next deliveries of the run, with positions that count up."""
        entries: list[Entry] = []
        try:
            for position in range(first_position, first_position + count):
                entries.append(Entry(self._read(), position, redelivered))
        except (IndexError, ValueError) as error:
            raise RunError(f"record {len(entries)} of a part of a run: {error}") from None
        return entries

    def skip(self, count: int) -> None:
        """Leave out the next messages of the run."""
        try:
            for _ in range(count):
                self._read()
        except (IndexError, ValueError) as error:
            raise RunError(f"a part of a run that is left out: {error}") from None

    def pass_over(self, count: int) -> None:
        """Leave out the next messages of a run that was checked before: their properties are not
        decoded, since a single message of an entry with thousands is read, too.
        """
        data = self._data
        position = self._position
        address_at: i64 = 0
        header_at: i64 = 0
        header_flags: i64 = 0
        try:
            for _ in range(count):
                flags: i64 = data[position]
                position += 1
                if not flags & SAME_ADDRESS:
                    address_at = position
                    position += 2 + i64(read_i16_le(data, position))
                if flags & NUMBERED:
                    position += 8
                if flags & EXPIRES:
                    position += 8
                if not flags & SAME_HEADER:
                    header_at, header_flags = position, flags
                    position += 4 + i64(read_i32_le(data, position))
                position += 4 + i64(read_i32_le(data, position))
            if address_at:
                end = address_at + 2 + i64(read_i16_le(data, address_at))
                self._address = self._addresses.find(_address(data[address_at + 2 : end]))
            if header_at:
                end = header_at + 4 + i64(read_i32_le(data, header_at))
                self._header = _header(data[header_at + 4 : end], header_flags)
        except (IndexError, ValueError) as error:
            raise RunError(f"a part of a run that is left out: {error}") from None
        self._position = position

    def _check_end(self) -> None:
        if self._position != len(self._data):
            raise RunError(f"{len(self._data) - self._position} bytes follow the last message")

    def _read(self) -> Message:
        data = self._data
        position = self._position
        flags: i64 = data[position]
        if flags > _EVERY_FLAG:
            raise RunError(f"the flags {flags} are unknown")
        self._flags = flags
        position += 1
        address = self._address
        if not flags & SAME_ADDRESS:
            start = position + 2
            address_bytes: i64 = i64(read_i16_le(data, position))
            position = start + address_bytes
            # A compiled slice whose end is before its start is a SystemError.
            if address_bytes < 2 or position > len(data):
                raise RunError(f"an address of {address_bytes} bytes")
            address = self._address = self._addresses.find(_address(data[start:position]))
        number: i64 = 0
        if flags & NUMBERED:
            number = read_i64_le(data, position)
            position += 8
        if flags & EXPIRES:
            self._left_ms = read_i64_le(data, position)
            position += 8
        header = self._header
        if not flags & SAME_HEADER:
            start = position + 4
            size: i64 = i64(read_i32_le(data, position))
            position = start + size
            if size < 2 or position > len(data):
                raise RunError(f"{size} bytes of properties")
            header = self._header = _header(data[start:position], flags)
        if address is None or header is None:
            raise RunError("the first record refers to one before it")
        start = position + 4
        body_bytes: i64 = i64(read_i32_le(data, position))
        position = start + body_bytes
        if body_bytes < 0 or position > len(data):
            raise RunError(f"a body of {body_bytes} bytes")
        self._position = position
        self.body_bytes += body_bytes
        return Message(address, header, data[start:position], None, number)


def _header(properties: bytes, flags: i64) -> ContentHeader:
    """The header of a message. Raises PropertiesError, which is a ValueError."""
    if flags & AS_STORED:
        header = read_stored(properties)
        return header.as_persistent() if flags & KEPT else header
    return ContentHeader(properties, scan(properties), (), flags & KEPT != 0, properties)


def _address(encoded: bytes) -> bytes:
    """The bytes, if they are an address. Raises IndexError or RunError."""
    key_at: i64 = 1 + encoded[0]
    if key_at + 1 + encoded[key_at] != len(encoded):
        raise RunError("an address is no two short strings")
    return encoded
