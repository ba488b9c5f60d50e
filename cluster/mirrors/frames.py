"""The frames of mirrored queues besides those of their rings (gm/activity.py), as bytes and values.

The first octet is the kind; a ring's messages have kinds below `CONTENTS`. Numbers are
little-endian. Frames name a queue by the identity of its ring.

From a node with publishers to all members:

    CONTENTS    identity u64, number u64, settled u64, ttl_ms i64, count u32, is_owed u8, run
                number: that of the first message. settled: the node knows the outcome of all
                messages below this number. ttl_ms: OWN_TTL only to nodes with OWN_TIMES_FEATURE.
                is_owed: a publisher waits for the leader's confirm
    BEGINS      identity u64, number u64, version u64: contents over this link begin with this
                number; those sent before never come. version: that of the ring's record by which
                the sender knows of the member
    BEGINS_WANTED   identity u64: a member that begins asks for BEGINS
    OWED        identity u64, (number, count) u64 each: to the leader, runs that wait for it

From members to that node:

    TAKEN       identity u64, taken bytes u64
    CONFIRMED   identity u64, ranges u32, (start, end) u64 each, (run, refused) u64 each

    LEADS       identity u64: the member leads from now on. It kept earlier contents without a note
                of the publishers that wait: the node reports these with OWED

From mirrors to the leader, and back:

    KEPT        identity u64, place u64, turn u64, batch u64: the mirror has all decisions of the
                turns, and all batches, through these numbers on its disk
    WANTED      identity u64, place u64, start u64, end u64: the positions whose messages a mirror
                asks for
    MESSAGES    identity u64, place u64, batch (batches.py): the answer, or its first part
    BATCH       identity u64, place u64, batch: a part of the messages that the mirror lacks
    LACKS       identity u64, place u64, term u64, (start, end) u64 each: the positions that a
                mirror lacks after it joined under an earlier leader, or was not linked for a while.
                term: that of the present leader

place: the mirror's place in the ring (gm/group.py). A frame from or to an earlier member of its
node may come late: turns and batches of another member are counted from the start.

Other bytes raise `QueueFrameError`, which closes the link. Pure.
"""

import struct
from typing import Final

from leveret.broker.queues.contract.publication import Publication
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.remote_queues.message_runs import RunReader, RunWriter
from leveret.cluster.remote_queues.queue_frames import (
    NO_TTL,
    QueueFrameError,
    fields,
    numbers,
    packed,
)
from leveret.storage.messages.addresses import Addresses

CONTENTS: Final = 11
OWED: Final = 12
TAKEN: Final = 13
CONFIRMED: Final = 14
KEPT: Final = 15
WANTED: Final = 16
MESSAGES: Final = 17
BATCH: Final = 18
BEGINS: Final = 19
LACKS: Final = 20
BEGINS_WANTED: Final = 21
LEADS: Final = 22

_START: Final = struct.Struct("<BQ")
_CONTENTS_START: Final = struct.Struct("<BQQQqI?")
_TAKEN: Final = struct.Struct("<BQQ")
_BEGINS: Final = struct.Struct("<BQQQ")
_CONFIRMED_START: Final = struct.Struct("<BQI")
_KEPT: Final = struct.Struct("<BQQQQ")
_WANTED: Final = struct.Struct("<BQQQQ")
_BATCH_START: Final = struct.Struct("<BQQ")
_LACKS_START: Final = struct.Struct("<BQQQ")


def about(kind: int, identity: int) -> bytes:
    """A frame of a kind without fields: `BEGINS_WANTED`, `LEADS`."""
    return _START.pack(kind, identity)


def read_identity(payload: bytes) -> int:
    """The queue of any of these frames. Raises QueueFrameError."""
    return int(fields(_START, payload)[0])


# From a node with publishers


def contents(identity: int, number: int, settled: int, publication: Publication) -> list[bytes]:
    """CONTENTS, in pieces. number: that of the first message of the publication."""
    messages, ttl_ms = publication.messages, publication.ttl_ms
    start = _CONTENTS_START.pack(
        CONTENTS, identity, number, settled, NO_TTL if ttl_ms is None else ttl_ms, len(messages),
        publication.publisher is not None,
    )  # fmt: skip
    return RunWriter(start).publish(messages)


def read_contents(
    payload: bytes, sender: int, addresses: Addresses
) -> tuple[Publication, int, bool]:
    """The publication of a sender, `settled` and `is_owed` of CONTENTS.

    Raises QueueFrameError, RunError.
    """
    _, number, settled, ttl, count, is_owed = fields(_CONTENTS_START, payload)
    reader = RunReader(payload, _CONTENTS_START.size, addresses)
    messages = reader.messages(count)
    if not count or not 0 < number < (1 << 62) - count:
        raise QueueFrameError(f"a run of {count} messages from number {number}")
    ttl_ms = None if ttl == NO_TTL else ttl
    publication = Publication(messages, reader.body_bytes, ttl_ms, None, 0, sender, number)
    return publication, settled, is_owed


def begins(identity: int, number: int, version: int) -> bytes:
    """BEGINS."""
    return _BEGINS.pack(BEGINS, identity, number, version)


def read_begins(payload: bytes) -> tuple[int, int]:
    """The number and the version of BEGINS. Raises QueueFrameError."""
    _, number, version = fields(_BEGINS, payload)
    return number, version


def owed(identity: int, runs: list[Range]) -> list[bytes]:
    """OWED, in pieces."""
    return [_START.pack(OWED, identity), _packed_pairs(runs)]


def read_owed(payload: bytes) -> list[Range]:
    """The runs of OWED. Raises QueueFrameError."""
    return _pairs(payload, _START.size)


# From members to that node


def taken(identity: int, taken_bytes: int) -> bytes:
    """TAKEN."""
    return _TAKEN.pack(TAKEN, identity, taken_bytes)


def read_taken(payload: bytes) -> int:
    """The bytes of TAKEN. Raises QueueFrameError."""
    return int(fields(_TAKEN, payload)[1])


def confirmed(identity: int, safe: list[Range], refused: list[Range]) -> list[bytes]:
    """CONFIRMED, in pieces."""
    return [_CONFIRMED_START.pack(CONFIRMED, identity, len(safe)), _packed_pairs(safe + refused)]


def read_confirmed(payload: bytes) -> tuple[list[Range], list[Range]]:
    """The ranges that are safe, and the pairs of a run and a refused message.

    Raises QueueFrameError.
    """
    _, count = fields(_CONFIRMED_START, payload)
    pairs = _pairs(payload, _CONFIRMED_START.size)
    if count > len(pairs):
        raise QueueFrameError(f"{count} ranges in {2 * len(pairs)} numbers")
    return pairs[:count], pairs[count:]


# Between mirrors and the leader


def kept(identity: int, place_id: int, turn: int, batch: int) -> bytes:
    """KEPT."""
    return _KEPT.pack(KEPT, identity, place_id, turn, batch)


def read_kept(payload: bytes) -> tuple[int, int, int]:
    """The mirror's place, the turn and the batch of KEPT. Raises QueueFrameError."""
    _, place_id, turn, batch = fields(_KEPT, payload)
    return place_id, turn, batch


def wanted(identity: int, place_id: int, start: int, end: int) -> bytes:
    """WANTED."""
    return _WANTED.pack(WANTED, identity, place_id, start, end)


def read_wanted(payload: bytes) -> tuple[int, int, int]:
    """The mirror's place, and the positions of WANTED. Raises QueueFrameError."""
    _, place_id, start, end = fields(_WANTED, payload)
    if start >= end:
        raise QueueFrameError(f"messages from position {start} to {end} are wanted")
    return place_id, start, end


def lacks(identity: int, place_id: int, term: int, ranges: list[Range]) -> list[bytes]:
    """LACKS, in pieces."""
    return [_LACKS_START.pack(LACKS, identity, place_id, term), _packed_pairs(ranges)]


def read_lacks(payload: bytes) -> tuple[int, int, list[Range]]:
    """The mirror's place, the term, and the positions of LACKS. Raises QueueFrameError."""
    _, place_id, term = fields(_LACKS_START, payload)
    return place_id, term, _pairs(payload, _LACKS_START.size)


def batch(kind: int, identity: int, place_id: int, pieces: list[bytes]) -> list[bytes]:
    """BATCH or MESSAGES, in pieces. pieces: those of the batch."""
    return [_BATCH_START.pack(kind, identity, place_id), *pieces]


def read_batch(payload: bytes) -> tuple[int, bytes]:
    """The place and the bytes of the batch, of BATCH or MESSAGES. Raises QueueFrameError."""
    _, place_id = fields(_BATCH_START, payload)
    return place_id, payload[_BATCH_START.size :]


def _pairs(payload: bytes, start: int) -> list[Range]:
    found = numbers(payload, start)
    if len(found) % 2:
        raise QueueFrameError(
            f"the {len(found)} numbers of a frame of kind {payload[0]} are no pairs"
        )
    return list(zip(found[::2], found[1::2], strict=True))


def _packed_pairs(pairs: list[Range]) -> bytes:
    return packed([number for pair in pairs for number in pair])
