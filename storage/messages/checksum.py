"""The checksum of all data that the store writes: CRC-32, the same as zlib's.

isal computes it: 75 ns for a message of 1.2 KB, where zlib takes 1,900. That was a tenth of the
instructions for publishing one durable message.
"""

from isal import isal_zlib

crc32 = isal_zlib.crc32
