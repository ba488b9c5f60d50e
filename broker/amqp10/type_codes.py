"""Codes of the types of AMQP 1.0, for modules that copy values without decoding them."""

from typing import Final

NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
ZERO_UINT: Final = 0x43
ZERO_ULONG: Final = 0x44
EMPTY_LIST: Final = 0x45
UBYTE: Final = 0x50
SMALL_UINT: Final = 0x52
SMALL_ULONG: Final = 0x53
SMALL_INT: Final = 0x54
SMALL_LONG: Final = 0x55
BOOLEAN: Final = 0x56
UINT: Final = 0x70
INT: Final = 0x71
LONG: Final = 0x81
TIME: Final = 0x83
UUID: Final = 0x98
BINARY8: Final = 0xA0
STRING8: Final = 0xA1
SYMBOL8: Final = 0xA3
BINARY32: Final = 0xB0
STRING32: Final = 0xB1
SYMBOL32: Final = 0xB3
LIST8: Final = 0xC0
MAP8: Final = 0xC1
LIST32: Final = 0xD0
MAP32: Final = 0xD1

TO_LARGE: Final = 0x10
"""The code of a long form is this much above that of the short form."""
