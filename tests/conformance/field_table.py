"""AMQP 0-9-1 field tables in which every value carries its type letter.

A value is a ``(letter, value)`` pair, for example ``("I", 5)`` or
``("A", [("S", "x"), ("t", True)])``, so that a transcript shows the exact
type a broker sent and not merely something that compares equal in Python.
"""

import struct

FIXED_WIDTH_FORMATS = {
    "t": ">?",
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "L": ">q",
    "f": ">f",
    "d": ">d",
    "T": ">Q",
}


def encode_shortstr(text):
    data = text.encode()
    return bytes([len(data)]) + data


def encode_longstr(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">I", len(data)) + data


def encode_table(table):
    return encode_longstr(
        b"".join(
            encode_shortstr(key) + encode_field(letter, value)
            for key, (letter, value) in table.items()
        )
    )


def encode_field(letter, value):
    if letter in FIXED_WIDTH_FORMATS:
        payload = struct.pack(FIXED_WIDTH_FORMATS[letter], value)
    elif letter in "Sx":
        payload = encode_longstr(value)
    elif letter == "F":
        payload = encode_table(value)
    elif letter == "A":
        payload = encode_longstr(b"".join(encode_field(*item) for item in value))
    elif letter == "D":
        scale, unscaled = value
        payload = struct.pack(">BI", scale, unscaled)
    elif letter == "V":
        payload = b""
    else:
        raise ValueError(f"no encoding for field type {letter!r}")
    return letter.encode() + payload


class Reader:
    """Reads AMQP values off a byte string, front to back."""

    def __init__(self, data):
        self.data = data
        self.position = 0

    @property
    def at_end(self):
        return self.position >= len(self.data)

    def take(self, size):
        chunk = self.data[self.position : self.position + size]
        if len(chunk) < size:
            raise ValueError("the broker sent a truncated value")
        self.position += size
        return chunk

    def unpack(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def shortstr(self):
        return self.take(self.unpack(">B")).decode()

    def longstr(self):
        return readable(self.take(self.unpack(">I")))

    def table(self):
        inner = Reader(self.take(self.unpack(">I")))
        fields = {}
        while not inner.at_end:
            key = inner.shortstr()
            fields[key] = inner.field()
        return fields

    def array(self):
        inner = Reader(self.take(self.unpack(">I")))
        items = []
        while not inner.at_end:
            items.append(inner.field())
        return items

    def field(self):
        letter = self.take(1).decode("latin-1")
        if letter in FIXED_WIDTH_FORMATS:
            value = self.unpack(FIXED_WIDTH_FORMATS[letter])
        elif letter in "Sx":
            value = self.longstr()
        elif letter == "F":
            value = self.table()
        elif letter == "A":
            value = self.array()
        elif letter == "D":
            value = [self.unpack(">B"), self.unpack(">I")]
        elif letter == "V":
            value = None
        else:
            raise ValueError(f"the broker sent unknown field type {letter!r}")
        return [letter, value]


def readable(data):
    """Text where the bytes are UTF-8, otherwise a ``hex:`` string."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "hex:" + data.hex()
