"""The key under which a queue's messages are stored: its storage id times 256, plus the level."""

LEVELS = 256
TRANSIENT_IDS = 1 << 48
"""Storage ids from this one on are of queues that are not durable."""
HEAD_IDS = 1 << 47
"""The head of a mirrored queue's copy (chained_queue.py) has its tail's id plus this number."""


def storage_id_of(key: int) -> int:
    """The storage id of the durable queue that a key belongs to."""
    return key // LEVELS % HEAD_IDS
