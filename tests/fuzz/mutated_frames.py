"""Mutated frames for the scanner, the decoders and a whole node, in rounds from a seed.

A round is of one of two sorts. In most, frames go through the scanner, and everything in them is
decoded: methods, tables, properties. In one of `NODE_EACH`, sessions go to a node without sockets.
A case is one frame that was changed.

Whatever the bytes are, nothing may be raised but the errors that the decoders name; what `scan` has
found to be properties can be decoded; and the node logs no internal error.
"""

import asyncio
import logging
import random
import struct
from collections.abc import Iterator
from contextlib import suppress

from leveret.broker.amqp.content_assembler import ContentAssembler
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.field_table import FieldTableError, decode_table, encode_table
from leveret.broker.amqp.frames import BODY, HEADER, METHOD, FrameScanner, FrameSink, is_known_frame
from leveret.broker.amqp.methods import UnreadableMethod, decode_method
from leveret.broker.amqp.properties import PropertiesError, decode_properties, encode_properties
from leveret.broker.amqp.table_scan import table_end
from tests.fuzz.mutation import mutated
from tests.fuzz.sessions import HANDSHAKE, TABLE, valid_session
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import READ_BYTES, Client, Node, Socket

FRAMES_OF_A_ROUND = 2_000
NODE_EACH = 10
"""One round in this many consists of sessions with a node."""
FRAME_BYTES_MAX = 4096
START_BYTES, END_BYTES = 7, 1
TURNS_MAX = 10_000

EVERY_FIELD = {
    **TABLE,
    "s": ("s", -1), "b": ("b", -1), "l": ("l", -1), "i": ("i", 1), "u": ("u", 1), "B": ("B", 1),
    "T": ("T", 1), "f": ("f", 1.5), "V": ("V", None), "x": ("x", b"bytes"), "D": ("D", (2, 314)),
    "x-death": ("A", [("F", {"queue": ("S", "q"), "count": ("l", 3), "time": ("T", 9)})]),
}  # fmt: skip
EVERY_PROPERTY = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": EVERY_FIELD,
    "delivery_mode": 2, "priority": 4, "correlation_id": "c", "reply_to": "r",
    "expiration": "60000", "message_id": "m", "timestamp": 1, "type": "t", "user_id": "guest",
    "app_id": "a", "cluster_id": "c",
}  # fmt: skip
NESTED = {"n": ("A", [])}
for _ in range(140):
    NESTED = {"n": ("F", NESTED)}
TABLES = [encode_table(table) for table in ({}, TABLE, EVERY_FIELD, NESTED)]


def frames_of(data: bytes) -> list[bytes]:
    """The frames in valid bytes, whole."""
    frames, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position + 3 : position + START_BYTES], "big")
        end = position + START_BYTES + size + END_BYTES
        frames.append(data[position:end])
        position = end
    return frames


def units() -> list[list[bytes]]:
    """Methods, and messages with their content frames."""
    messages = [
        publish_bytes(1, "key", b"body", **EVERY_PROPERTY),
        publish_bytes(1, "key", b"", headers=NESTED),
        publish_bytes(1, "key", bytes(9000), frame_bytes_max=4096, delivery_mode=2),
        publish_bytes(1, "key", b"one", message_id="1", timestamp=1)
        + publish_bytes(1, "key", b"two", message_id="2", timestamp=2),
        publish_bytes(1, "key", b"same") * 3,
    ]
    return [frames_of(data) for data in [*messages, *HANDSHAKE[1:], *valid_session(0)]]


UNITS = units()
ALL_BYTES = b"".join([frame for unit in UNITS for frame in unit])


def damaged_frame(chance: random.Random, frame: bytes) -> bytes:
    """A frame with changes; mostly such that the scanner still takes it for a frame."""
    if chance.random() < 0.15:
        return mutated(chance, frame, ALL_BYTES)
    payload = mutated(chance, frame[START_BYTES:-END_BYTES], ALL_BYTES)
    return frame[:3] + len(payload).to_bytes(4, "big") + payload + frame[-END_BYTES:]


def damaged_unit(chance: random.Random, unit: list[bytes]) -> bytes:
    """The bytes of a unit, one frame of which is changed."""
    place = int(chance.random() * len(unit))
    frame = damaged_frame(chance, unit[place])
    return b"".join([*unit[:place], frame, *unit[place + 1 :]])


def pieces(chance: random.Random, data: bytes) -> Iterator[bytes]:
    """The data as a socket may give it: at once, or in pieces."""
    while data and chance.random() < 0.3:
        place = 1 + int(chance.random() * len(data))
        yield data[:place]
        data = data[place:]
    if data:
        yield data


# Scanner and decoders


class Decoding(FrameSink):
    """A sink of frames that decodes all that is in them."""

    def __init__(self) -> None:
        self.assembler: ContentAssembler | None = None

    def on_publish(self, channel, arguments, properties, bodies, body_bytes):
        assert len(properties) == len(bodies)
        assert body_bytes == sum(map(len, bodies))
        for one in properties:
            decode_header(one)
        self.assembler = ContentAssembler(arguments)

    def on_ack(self, channel, delivery_tags, multiple):
        assert delivery_tags

    def on_frame(self, kind, channel, payload):
        if not is_known_frame(kind, payload):
            return
        try:
            if kind == METHOD:
                decode_method(payload)
            elif kind in (HEADER, BODY):
                self.assemble(kind, payload)
        except (UnreadableMethod, ConnectionFault):
            self.assembler = None

    def assemble(self, kind, payload):
        if self.assembler is None:
            self.assembler = ContentAssembler(b"")
        content = self.assembler.add(kind, payload)
        if content is not None:
            self.assembler = None
            decode_header(content.properties)


def decode_header(properties: bytes) -> None:
    """What `scan` accepts is decoded, and can be encoded again."""
    try:
        header = read_header(properties)
    except PropertiesError:
        return
    assert header.priority is None or 0 <= header.priority <= 255
    encode_properties(header.properties)


def decode_piece(data: bytes) -> None:
    """Tables and properties, from bytes that are not in a frame."""
    try:
        table, end = decode_table(data)
        assert table_end(data, 0) == end <= len(data)
        encode_table(table)
    except FieldTableError:
        pass
    with suppress(struct.error, IndexError, FieldTableError, PropertiesError):
        decode_properties(data)


def decode_round(chance: random.Random) -> int:
    """Scan and decode frames. Returns how many were changed."""
    cases = 0
    while cases < FRAMES_OF_A_ROUND:
        scanner = FrameScanner(Decoding(), FRAME_BYTES_MAX)
        count = 1 + int(chance.random() * 6)
        chosen = [UNITS[int(chance.random() * len(UNITS))] for _ in range(count)]
        data = b"".join([damaged_unit(chance, unit) for unit in chosen])
        try:
            for piece in pieces(chance, data):
                scanner.add(piece)
                scanner.scan()
        except ConnectionFault:
            assert scanner.is_broken
        decode_piece(mutated(chance, TABLES[int(chance.random() * len(TABLES))], ALL_BYTES))
        cases += count + 1
    return cases


# A node


class InternalErrors(logging.Handler):
    """Keeps the broker's internal errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info or "internal error" in text:
            self.found.append(ascii(text))
            if record.exc_info:
                self.found.append(ascii(logging.Formatter().formatException(record.exc_info)))


class Attacker(Client):
    """A client that has sent nothing yet."""

    def __init__(self, broker) -> None:
        self.socket = Socket()
        self.connection = broker._accept()
        self.connection.connection_made(self.socket)
        self._unread = b""


async def attack(chance: random.Random, node: Node, number: int) -> int:
    """A session with changed frames, until its connection ends. Returns how many were changed."""
    cases = 0
    client = Attacker(node.broker)
    start = HANDSHAKE
    if chance.random() < 0.2:
        start = [HANDSHAKE[0], *[damaged_frame(chance, frame) for frame in HANDSHAKE[1:]]]
        cases += len(HANDSHAKE) - 1
    client.send(b"".join(start))
    client.be_read()
    session = [frames_of(data) for data in valid_session(number)]
    for unit in session:
        if client.socket.is_closed:
            break
        data = b"".join(unit)
        if chance.random() < 0.3:
            data, cases = damaged_unit(chance, unit), cases + 1
        for piece in pieces(chance, data):
            client.send(piece)
            await until_read(client)
    client.disconnect()
    await asyncio.sleep(0)
    return cases


async def until_read(client: Client) -> None:
    """Let turns pass until the node has handled what was sent, or does not read."""
    for _ in range(TURNS_MAX):
        client.be_read()
        if client.is_done or client.socket.is_closed or not client.socket.is_read:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"not handled after {TURNS_MAX} turns of at most {READ_BYTES} bytes")


async def node_round(chance: random.Random) -> int:
    """Sessions with a node. Returns how many frames were changed."""
    errors = InternalErrors()
    logger = logging.getLogger("leveret")
    logger.addHandler(errors)
    slipped: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: slipped.append(ascii(context)))
    cases = number = 0
    try:
        async with Node() as node:
            while cases < FRAMES_OF_A_ROUND:
                number += 1
                cases += await attack(chance, node, number)
                assert not errors.found, "\n".join(errors.found)
                assert not slipped, slipped
    finally:
        logger.removeHandler(errors)
    return cases


def frame_round(seed: int, number: int) -> int:
    """One round; returns the number of frames that were changed."""
    chance = random.Random(f"frames {seed} {number}")
    if number % NODE_EACH == NODE_EACH - 1:
        return asyncio.run(node_round(chance))
    return decode_round(chance)
