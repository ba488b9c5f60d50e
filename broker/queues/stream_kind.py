"""Streams: a kind of queue of RabbitMQ that this node does not serve.

Their declarations are checked as RabbitMQ does, and then refused.
"""

from leveret.broker.queues.contract.queue_kind import STREAM, STREAM_ARGUMENTS, QueueKind

STREAM_QUEUE = QueueKind(
    STREAM, "rabbit_stream_queue", STREAM_ARGUMENTS, ("x-stream-offset", "x-credit"), "streams",
    is_replicated=True, may_be_transient=False, may_be_exclusive=False, may_be_auto_delete=False,
    may_be_named_by_server=False, has_global_qos=False, removes_messages=False,
)  # fmt: skip
