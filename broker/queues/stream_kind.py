"""The kind of streams, as declarations and consumers see it (the queues: cluster/streams)."""

from dataclasses import replace

from leveret.broker.queues.contract.queue_kind import (
    DEDUPLICATION_ARGUMENTS,
    MIRRORING_POLICIES,
    STREAM,
    STREAM_ARGUMENTS,
    STREAM_POLICIES,
    QueueKind,
)

_POLICIES_OF_OTHERS = (
    "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delayed-retry-max",
    "delayed-retry-min", "delayed-retry-multiplier", "delayed-retry-type", "delivery-limit",
    "expire-on-time", "expires", "max-in-memory-bytes", "max-in-memory-length", "max-length",
    "max-priority", "message-ttl", "overflow", "queue-mode", *DEDUPLICATION_ARGUMENTS,
)  # fmt: skip

STREAM_QUEUE = QueueKind(
    STREAM,
    "rabbit_stream_queue",
    STREAM_ARGUMENTS,
    ("x-stream-offset", "x-credit"),
    "streams",
    unsupported_policies=frozenset((*MIRRORING_POLICIES, *_POLICIES_OF_OTHERS)),
    policy_wins=frozenset((*STREAM_POLICIES, "max-length-bytes")),
    is_replicated=True,
    may_be_transient=False,
    may_be_exclusive=False,
    may_be_auto_delete=False,
    may_be_named_by_server=False,
    has_global_qos=False,
    removes_messages=False,
)
STREAM_QUEUE_OF_4 = replace(STREAM_QUEUE, is_as_rabbitmq_4=True)
"""Streams of a node that behaves like RabbitMQ 4."""
