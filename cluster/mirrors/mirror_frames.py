"""The frames of mirrored queues beside those of their rings (gm/activity.py). Little-endian.

The first octet is the kind; a ring's messages have kinds below `CONTENTS`. A queue is known by the
identity of its ring. From a node with publishers to all members:

    CONTENTS    identity u64, number u64, settled u64, ttl_ms i64, count u32, is_owed u8, run
                number: of the first message. settled: the node knows what became of all below this
                number. is_owed: a publisher waits for the leader's confirm
    BEGINS      identity u64, number u64, version u64: what comes over this link begins with this
                number; what was sent before never comes. version: of the ring's record, by which
                the sender knows of the member
    BEGINS_WANTED   identity u64: a member that begins asks for the above
    OWED        identity u64, (number, count) u64 each: to the leader, runs that wait for it

From members to it:

    TAKEN       identity u64, taken bytes u64
    CONFIRMED   identity u64, ranges u32, (start, end) u64 each, (run, refused) u64 each

    LEADS       identity u64: the member leads from now on. What was sent to it before was kept
                without a note of who waits: the node says that with OWED

From mirrors to the leader, and back:

    KEPT        identity u64, born u64, turn u64, batch u64: the mirror has all decisions of the
                turns, and all batches, through these numbers on its disk
    WANTED      identity u64, born u64, start u64, end u64: of positions whose messages a mirror
                asks for
    MESSAGES    identity u64, born u64, batch (batches.py): the answer, or its first part
    BATCH       identity u64, born u64, batch: a part of what the mirror lacks
    LACKS       identity u64, born u64, term u64, (start, end) u64 each: what a mirror lacks that
                joined under an earlier leader, or was not linked for a while. term: of the present
                leader

born: the mirror's place in the ring (gm/group.py). A frame of an earlier member of its node, or for
one, may come late: turns and batches of another member are counted anew.

They are read with `fields` and `numbers` of queues/queue_frames.py. Anything else raises
`FrameError`, and the link is closed for it.
"""

import struct
from typing import Final

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

IDENTITY: Final = struct.Struct("<BQ")
CONTENTS_START: Final = struct.Struct("<BQQQqI?")
TAKEN_FRAME: Final = struct.Struct("<BQQ")
BEGINS_FRAME: Final = struct.Struct("<BQQQ")
CONFIRMED_START: Final = struct.Struct("<BQI")
KEPT_FRAME: Final = struct.Struct("<BQQQQ")
WANTED_FRAME: Final = struct.Struct("<BQQQQ")
BATCH_START: Final = struct.Struct("<BQQ")
LACKS_START: Final = struct.Struct("<BQQQ")
