"""Finds the values of messages' properties that are kept; properties are as on the wire.

Those that have the same flags have the same values in the same order: their values are stepped over
at once, for all of them (specification, section 4.2.6.1).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leveret.analytics.traces.schema import KEPT_PROPERTIES
from leveret.broker.amqp.properties import FLAGS_CONTINUED, PROPERTY_TYPES
from leveret.broker.tracing import record

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_FLAGS_BYTES, _LENGTH_BYTES = 2, 4
_SIZES = {"octet": 1, "timestamp": 8}


class InvalidPropertiesError(ValueError):
    """The bytes are no properties, or a value is no text."""


def values_of(octets: Octets, begins: Numbers, ends: Numbers) -> dict[str, pa.Array]:
    """Return the values of schema.KEPT_PROPERTIES that properties have; null if they have none.

    octets: a block's. begins, ends: the offsets at which properties begin and end. Raises
    IndexError and InvalidPropertiesError.
    """
    if np.any(ends - begins < _FLAGS_BYTES):
        raise InvalidPropertiesError("properties without flags")
    flags = octets[begins].astype(np.int64) << 8 | octets[begins + 1]
    found = {name: _PropertyValues(len(begins)) for name in KEPT_PROPERTIES}
    for value in np.unique(flags).tolist():
        where = np.flatnonzero(flags == value)
        at = _step_over(octets, begins[where] + _FLAGS_BYTES, value, where, found)
        if value & FLAGS_CONTINUED or np.any(at != ends[where]):
            raise InvalidPropertiesError("properties that end too early or go on too long")
    return {
        name: values.texts(octets)
        if KEPT_PROPERTIES[name] == record.STRING
        else values.bytes(octets)
        for name, values in found.items()
    }


class _PropertyValues:
    """Where values begin, and their sizes in bytes, by number of properties."""

    def __init__(self, count: int) -> None:
        self._begins: Numbers = np.zeros(count, np.int64)
        self._sizes: Numbers = np.zeros(count, np.int64)
        self._is_there = np.zeros(count, np.bool_)

    def put(self, where: Numbers, begins: Numbers, sizes: Numbers) -> None:
        """These have a value."""
        self._begins[where] = begins
        self._sizes[where] = sizes
        self._is_there[where] = True

    def bytes(self, octets: Octets) -> pa.Array:
        """Return values of one byte each, as numbers."""
        return pa.array(octets[self._begins].astype(np.int64), mask=~self._is_there)

    def texts(self, octets: Octets) -> pa.Array:
        """Cut the texts out."""
        if not self._is_there.any():
            return pa.nulls(len(self._sizes), pa.string())
        offsets = np.zeros(len(self._sizes) + 1, np.int32)
        np.cumsum(self._sizes, out=offsets[1:])
        places = np.repeat(self._begins - offsets[:-1], self._sizes) + np.arange(offsets[-1])
        validity = np.packbits(self._is_there, bitorder="little")
        buffers: list[Any] = [pa.py_buffer(each) for each in (validity, offsets, octets[places])]
        texts = pa.Array.from_buffers(pa.string(), len(self._sizes), buffers)
        # Raises ArrowInvalid, for instance if they are not UTF-8.
        texts.validate(full=True)
        return texts


def _step_over(
    octets: Octets, at: Numbers, flags: int, where: Numbers, found: dict[str, _PropertyValues]
) -> Numbers:
    """Step over the values of properties with these flags, and return where they end."""
    for name, flag, kind in PROPERTY_TYPES:
        if not flags & flag:
            continue
        if kind == "shortstr":
            sizes = octets[at].astype(np.int64)
            if name in found:
                found[name].put(where, at + 1, sizes)
            at = at + 1 + sizes
        elif kind == "table":
            at = at + _LENGTH_BYTES + _length_at(octets, at)
        else:
            if name in found:
                found[name].put(where, at, np.ones(len(at), np.int64))
            at = at + _SIZES[kind]
    return at


def _length_at(octets: Octets, at: Numbers) -> Numbers:
    length: Numbers = np.zeros(len(at), np.int64)
    for place in range(_LENGTH_BYTES):
        length = length << 8 | octets[at + place]
    return length
