"""Why a queue cannot be converted: all reasons together, as texts for the operator. Pure."""

from collections.abc import Mapping
from typing import Any

from leveret.broker.queues.contract.arguments import REJECT_PUBLISH_DLX
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC, EVERY_ARGUMENT, QUORUM, QueueKind

CONVERTED = (CLASSIC, QUORUM)
"""The types from which, and to which, queues are converted."""
MESSAGES_MAX = 20_000
BYTES_MAX = 32 * 1024 * 1024
"""This much can be copied in half a second on a busy machine."""
EXPIRES_MS_MIN = 10_000
"""The queue has no consumers while it is held, which is for at most half as long."""


def refusals(queue: QueueClient, kind: QueueKind, policy: Mapping[str, Any]) -> list[str]:
    """The reasons. kind: what it is to be. policy: the merged definition of its policies."""
    if queue.kind.name == kind.name or queue.kind.name not in CONVERTED:
        return [f"it is a {queue.kind.name} queue"]
    to_quorum = kind.name == QUORUM
    is_mirrored = to_quorum and bool(queue.placement.record)
    expires_ms = queue.options.expires_ms
    refused = [
        text
        for is_so, text in (
            (not queue.durable, "it is not durable"),
            (queue.is_exclusive, "it is exclusive"),
            (queue.auto_delete, "it is auto-delete"),
            (
                expires_ms is not None and expires_ms < EXPIRES_MS_MIN,
                f"it may expire meanwhile: its x-expires must be at least {EXPIRES_MS_MIN} ms",
            ),
            (is_mirrored, "it is mirrored: first remove ha-mode from its policy"),
            (
                to_quorum and queue.options.overflow == REJECT_PUBLISH_DLX,
                f"quorum queues have no overflow {REJECT_PUBLISH_DLX}",
            ),
        )
        if is_so
    ]
    unknown = EVERY_ARGUMENT.difference(kind.arguments)
    refused += [
        f"{kind.name} queues have no argument {argument}"
        for argument in queue.arguments
        if argument in unknown
    ]
    refused += [
        f"a policy with the key {key} does not apply to {kind.name} queues"
        for key in policy
        if key in kind.unsupported_policies and not (key == "ha-mode" and is_mirrored)
    ]
    return refused


def too_much(messages: int, body_bytes: int) -> str | None:
    """The reason why this number of messages cannot be copied; None if they can."""
    if messages <= MESSAGES_MAX and body_bytes <= BYTES_MAX:
        return None
    return (
        f"it has {messages} messages with {body_bytes} bytes, and at most {MESSAGES_MAX} messages "
        f"with {BYTES_MAX} bytes are copied in one pause: all of them if some expire"
    )
