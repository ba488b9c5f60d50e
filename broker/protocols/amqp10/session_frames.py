"""The frames of the message path, from their bytes and as bytes. Pure. Compiled.

There may be hundreds of thousands of transfers, flows and dispositions a second, so no object is
made for each: `SessionFrame` reads their fields into numbers. It understands the forms that clients
send. For other forms, such as descriptors that are names, and for invalid bytes it returns False,
and performatives.py reads them or raises an error.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from leveret.broker.amqp10.type_codes import (
    BINARY8,
    BINARY32,
    BOOLEAN,
    EMPTY_LIST,
    FALSE,
    LIST8,
    LIST32,
    NULL,
    SMALL_UINT,
    SMALL_ULONG,
    TRUE,
    UBYTE,
    UINT,
    ZERO_UINT,
)
from leveret.broker.amqp10.unsigned import read_uint32, write_uint32
from leveret.broker.protocols.amqp10.performatives import SECOND, Transfer

FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26

ABSENT: Final = -1
"""Stands for a field that is null or left out."""
_OTHER: Final = -2
DESCRIBED: Final = 0
"""Before a descriptor."""

_FRAME_START: Final = b"\x02\x00"
"""Where the body of a frame begins, in words, and its type."""
_SIZE_AT: Final = 12
"""Where the size of the fields of a performative is in a frame made here."""


class SessionFrame:
    """The fields of the frame that was read last; ABSENT, or False, for those that are not there.

    code: FLOW, TRANSFER or DISPOSITION; 0 for another one. end: where the performative ends.
    Of a transfer: handle, delivery_id, is_settled, has_more, is_aborted, is_second (the
    rcv-settle-mode). Of a disposition: is_receiver (the role), first, last (the same as `first` if
    it was left out), is_settled, and outcome: ACCEPTED, or ABSENT. Of a flow: next_incoming_id,
    incoming_window, outgoing_end (the number of the client's next transfer and its window), handle,
    delivery_count, link_credit.
    """

    __slots__ = (
        "_at", "_data", "_left", "code", "delivery_count", "delivery_id", "end", "first", "handle",
        "has_more", "incoming_window", "is_aborted", "is_receiver", "is_second", "is_settled",
        "last", "link_credit", "next_incoming_id", "outcome", "outgoing_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self._data = b""
        self._at: i64 = 0
        self._left: i64 = 0
        self.code: i64 = 0
        self.end: i64 = 0
        self.handle: i64 = ABSENT
        self.delivery_id: i64 = ABSENT
        self.is_settled = self.has_more = self.is_aborted = self.is_second = False
        self.is_receiver = False
        self.first: i64 = 0
        self.last: i64 = 0
        self.outcome: i64 = ABSENT
        self.next_incoming_id: i64 = ABSENT
        self.incoming_window: i64 = 0
        self.outgoing_end: i64 = 0
        self.delivery_count: i64 = ABSENT
        self.link_credit: i64 = ABSENT

    def read(self, data: bytes, at: i64, end: i64) -> bool:
        """Read the performative of a frame's body; returns whether it is one of the three, in a
        form that is understood. `code` says which.
        """
        self.code = 0
        if end - at < 4 or data[at] or data[at + 1] != SMALL_ULONG:
            return False
        code: i64 = data[at + 2]
        if not FLOW <= code <= DISPOSITION:
            return False
        self._data = data
        try:
            is_read = self._read(code, at + 3, end)
        except (IndexError, ValueError):
            is_read = False
        self._data = b""
        if is_read:
            self.code = code
        return is_read

    def take_transfer(self, transfer: Transfer) -> None:
        """Take the fields of a transfer that performatives.py has read."""
        self.code = TRANSFER
        self.handle = transfer.handle
        self.delivery_id = ABSENT if transfer.delivery_id is None else transfer.delivery_id
        self.is_settled, self.has_more = bool(transfer.settled), bool(transfer.more)
        self.is_aborted = bool(transfer.aborted)
        self.is_second = transfer.rcv_settle_mode == SECOND

    def _read(self, code: i64, at: i64, end: i64) -> bool:
        data = self._data
        form: i64 = data[at]
        if form == LIST8:
            self.end = at + 2 + data[at + 1]
            self._left = data[at + 2]
            self._at = at + 3
        elif form == LIST32:
            self.end = at + 5 + read_uint32(data, at + 1)
            self._left = read_uint32(data, at + 5)
            self._at = at + 9
        else:
            return False
        if self.end > end:
            return False
        if code == TRANSFER:
            is_read = self._read_transfer()
        elif code == DISPOSITION:
            is_read = self._read_disposition()
        else:
            is_read = self._read_flow()
        return is_read and not self._left and self._at == self.end

    def _read_transfer(self) -> bool:
        self.handle = self._uint()
        self.delivery_id = self._uint()
        is_understood = self._skip_binary() and self._uint() != _OTHER
        settled = self._boolean()
        more = self._boolean()
        mode = self._ubyte()
        is_understood = is_understood and self._null()
        resume = self._boolean()
        aborted = self._boolean()
        batchable = self._boolean()
        self.is_settled, self.has_more = settled == 1, more == 1
        self.is_aborted, self.is_second = aborted == 1, mode == SECOND
        return (
            is_understood and self.handle >= 0 and self.delivery_id >= ABSENT
            and settled >= ABSENT and more >= ABSENT and mode >= ABSENT and resume >= ABSENT
            and aborted >= ABSENT and batchable >= ABSENT
        )  # fmt: skip

    def _read_disposition(self) -> bool:
        role = self._boolean()
        self.first = self._uint()
        self.last = self._uint()
        settled = self._boolean()
        self.outcome = self._outcome()
        batchable = self._boolean()
        if self.last == ABSENT:
            self.last = self.first
        self.is_receiver, self.is_settled = role == 1, settled == 1
        return (
            role >= 0 and self.first >= 0 and self.last >= 0 and settled >= ABSENT
            and self.outcome >= ABSENT and batchable >= ABSENT
        )  # fmt: skip

    def _read_flow(self) -> bool:
        """Read a flow that has only the windows and the credit of a link."""
        self.next_incoming_id = self._uint()
        self.incoming_window = self._uint()
        next_outgoing_id = self._uint()
        outgoing_window = self._uint()
        self.outgoing_end = next_outgoing_id + outgoing_window
        self.handle = self._uint()
        self.delivery_count = self._uint()
        self.link_credit = self._uint()
        available = self._uint()
        drain = self._boolean()
        echo = self._boolean()
        return (
            self._null() and self.next_incoming_id >= ABSENT and self.incoming_window >= 0
            and next_outgoing_id >= 0 and outgoing_window >= 0 and self.handle >= 0
            and self.delivery_count >= ABSENT and self.link_credit >= 0 and available >= ABSENT
            and drain in (0, ABSENT) and echo in (0, ABSENT)
        )  # fmt: skip

    # Fields. _OTHER stands for one of a form that is not understood.

    def _next(self) -> i64:
        """Go over the code of the next field, and return it; NULL if there is no further field."""
        if not self._left:
            return NULL
        self._left -= 1
        code: i64 = self._data[self._at]
        self._at += 1
        return code

    def _uint(self) -> i64:
        code = self._next()
        at = self._at
        if code == UINT:
            self._at = at + 4
            return read_uint32(self._data, at)
        if code == SMALL_UINT:
            self._at = at + 1
            return self._data[at]
        if code == ZERO_UINT:
            return 0
        return ABSENT if code == NULL else _OTHER

    def _boolean(self) -> i64:
        code = self._next()
        if code == TRUE:
            return 1
        if code == FALSE:
            return 0
        if code == BOOLEAN:
            self._at += 1
            return 1 if self._data[self._at - 1] else 0
        return ABSENT if code == NULL else _OTHER

    def _ubyte(self) -> i64:
        code = self._next()
        if code == UBYTE:
            self._at += 1
            return self._data[self._at - 1]
        return ABSENT if code == NULL else _OTHER

    def _skip_binary(self) -> bool:
        """Go over a field of the type binary; returns whether it is one."""
        code = self._next()
        at = self._at
        if code == BINARY8:
            self._at = at + 1 + self._data[at]
        elif code == BINARY32:
            self._at = at + 4 + read_uint32(self._data, at)
        else:
            return code == NULL
        return True

    def _null(self) -> bool:
        """Go over a field; returns whether it is absent."""
        return self._next() == NULL

    def _outcome(self) -> i64:
        """Go over an outcome: ACCEPTED without fields, or null."""
        code = self._next()
        if code == NULL:
            return ABSENT
        data, at = self._data, self._at
        if code != DESCRIBED or data[at] != SMALL_ULONG or data[at + 1] != ACCEPTED:
            return _OTHER
        form: i64 = data[at + 2]
        if form == EMPTY_LIST:
            self._at = at + 3
        elif form == LIST8 and data[at + 3] == 1 and not data[at + 4]:
            self._at = at + 5
        else:
            return _OTHER
        return ACCEPTED


# Encoding


def disposition_frame(channel: i64, first: i64, last: i64, outcome: i64) -> bytes:
    """The frame of a receiver that settles deliveries. outcome: one without fields."""
    writer = BytesWriter()
    _begin(writer, channel, DISPOSITION, 5)
    writer.append(TRUE)
    _write_uint(writer, first)
    if last == first:
        writer.append(NULL)
    else:
        _write_uint(writer, last)
    writer.append(TRUE)
    writer.append(0)
    writer.append(SMALL_ULONG)
    writer.append(outcome)
    writer.append(EMPTY_LIST)
    return _ended(writer)


def flow_frame(
    channel: i64, next_incoming_id: i64, incoming_window: i64, next_outgoing_id: i64,
    outgoing_window: i64, handle: i64, delivery_count: i64, link_credit: i64,
) -> bytes:  # fmt: skip
    """The frame with the state of a session. handle: ABSENT without that of a link."""
    writer = BytesWriter()
    _begin(writer, channel, FLOW, 4 if handle == ABSENT else 7)
    _write_uint(writer, next_incoming_id)
    _write_uint(writer, incoming_window)
    _write_uint(writer, next_outgoing_id)
    _write_uint(writer, outgoing_window)
    if handle != ABSENT:
        _write_uint(writer, handle)
        _write_uint(writer, delivery_count)
        _write_uint(writer, link_credit)
    return _ended(writer)


def _begin(writer: BytesWriter, channel: i64, code: i64, count: i64) -> None:
    write_uint32(writer, 0)
    writer.write(_FRAME_START)
    writer.append(u8(channel >> 8 & 0xFF))
    writer.append(u8(channel & 0xFF))
    writer.append(0)
    writer.append(SMALL_ULONG)
    writer.append(code)
    writer.append(LIST8)
    writer.append(0)
    writer.append(count)


def _ended(writer: BytesWriter) -> bytes:
    """The frame, with its sizes. It is shorter than 256 bytes."""
    size: i64 = len(writer)
    writer[3] = u8(size)
    writer[_SIZE_AT] = u8(size - _SIZE_AT - 1)
    return writer.getvalue()


def _write_uint(writer: BytesWriter, number: i64) -> None:
    if number == 0:
        writer.append(ZERO_UINT)
    elif number < 256:
        writer.append(SMALL_UINT)
        writer.append(number)
    else:
        writer.append(UINT)
        write_uint32(writer, number)
