"""Deduplication of a queue as JSON. The plugin of RabbitMQ has the same field in the status of the
backing queue.
"""

from typing import Any

from leveret.broker.queues.contract.status import DeduplicationStatus


def deduplication_fields(status: DeduplicationStatus, duplicates: int) -> dict[str, Any]:
    """The fields of a queue that refuses duplicates, and how many there were."""
    return {
        "messages_duplicate": duplicates,
        "message_deduplication_cache_info": {
            "entries": status.entries, "size": status.size, "bytes": status.memory_bytes,
        },
    }  # fmt: skip
