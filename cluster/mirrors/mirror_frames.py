"""The frames of mirrored queues beside those of their rings (gm/activity.py). Little-endian.

The first octet is the kind; a ring's messages have kinds below `CONTENTS`. Frames name a queue by
the identity of its ring. From a node with publishers to all members:

    CONTENTS    identity u64, number u64, settled u64, ttl_ms i64, count u32, is_owed u8, run
                number: that of the first message. settled: the node knows the outcome of all
                messages below this number. is_owed: a publisher waits for the leader's confirm
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
node may come late: turns and batches of another member are counted anew.

`fields` and `numbers` of queues/queue_frames.py read the frames. Anything else raises `FrameError`,
which closes the link.
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
