"""Deduplication of queues and exchanges as JSON.

The plugin of RabbitMQ has the same fields with the figures of identifiers: `cache_info` of an
exchange, and in the status of the backing queue of a queue.
"""

from typing import Any

from leveret.broker.queues.contract.status import DeduplicationStatus


def deduplication_fields(status: DeduplicationStatus, duplicates: int) -> dict[str, Any]:
    """The fields of a queue that refuses duplicates, and how many there were."""
    return {
        "messages_duplicate": duplicates,
        "message_deduplication_cache_info": _identifiers(status),
    }


def seen_fields(status: DeduplicationStatus, duplicates: int) -> dict[str, Any]:
    """The fields of an exchange that refuses duplicates, and how many there were."""
    return {"messages_duplicate": duplicates, "cache_info": _identifiers(status)}


def _identifiers(status: DeduplicationStatus) -> dict[str, int]:
    return {"entries": status.entries, "size": status.size, "bytes": status.memory_bytes}
