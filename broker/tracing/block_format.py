"""The blocks of a trace log's files: the broker writes them, and readers turn them into lines.

A file is a sequence of gzip members, each of which is one block. A block is read without any other
block, because it defines everything that its records refer to. So damage loses only the block that
it is in, whose checksum (gzip's) reveals it, and a reader continues with the next one; a crash cuts
off only the last block. Integers are little-endian.

    4 bytes  MAGIC
    u32      length of the header
    header   a JSON object:
                 version              of this format
                 node, vhost, sample  of the log
                 records              how many there are in the block
                 from_us, to_us       the times of the first and of the last
    entries  to the end of the block, each a byte that tells its kind, and:

    TEXT        u32 length, text              the next text of the block; the first is number 0
    PROPERTIES  u32 length, bytes             the next properties, as they are on the wire
    PUBLISH     u32 text, u32 text, u32 properties, i64 time_us, i64 message, u32 body size
    DELIVER     as PUBLISH, then i64 delivery tag, u8 whether it is redelivered
    ACK         u32 text, i64 time_us, i64 message, i64 delivery tag
    RECORD      u32 length, text              a whole record, as a line
    BODY        u32 length, bytes             the body of the record that follows

Texts are parts of a record as JSON (record.py): the first of the two holds the fields up to the
time, which are those of the channel and the queue, the second those of the message's address, up to
its properties.

    {"event":"publish",...,"time_us":   1700000000000000   ,"exchange":"","routing_keys":[...]

Compared with lines, writing the record of a message takes a tenth of the time: each message has its
own properties, and encoding these as JSON costs more than all other work of the broker on a
message.
"""

import struct
from typing import Final

VERSION: Final = 1
"""A reader reads every version up to its own, and refuses later ones."""
MAGIC: Final = b"\0LTB"
TEXT: Final = 1
PROPERTIES: Final = 2
PUBLISH: Final = 3
DELIVER: Final = 4
ACK: Final = 5
RECORD: Final = 6
BODY: Final = 7

LENGTH = struct.Struct("<I")
PUBLISH_FIELDS = struct.Struct("<IIIqqI")
DELIVER_FIELDS = struct.Struct("<IIIqqIqB")
ACK_FIELDS = struct.Struct("<Iqqq")
MESSAGE = struct.Struct("<q")
"""The number of a message in a record."""
