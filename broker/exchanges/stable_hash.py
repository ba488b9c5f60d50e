"""A hash that is the same on every node and after every restart, for exchanges that choose by hash.

Python's `hash` of a string differs from process to process. This one is 64 bits of BLAKE2 of the
value's `repr`. It is not RabbitMQ's (`erlang:phash2`): a key always has the same destination, but
not the one that RabbitMQ would choose.
"""

from hashlib import blake2b

HASH_BYTES = 8


def stable_hash(value: object) -> int:
    """64 bits. value: made of strings, numbers, tuples, lists and dicts only."""
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=HASH_BYTES).digest(), "big")
