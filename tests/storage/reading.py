"""What a backing queue holds, read without changing it."""

from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry


def ready_entries(queue: BackingQueue) -> list[Entry]:
    """The ready entries, in order."""
    cursor = queue.cursor()
    found: list[Entry] = []
    while entries := cursor.read(64 * 1024):
        found += entries
    cursor.close()
    return found
