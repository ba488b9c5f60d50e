"""Why a queue cannot be converted: all reasons together, with what the operator can do. Pure."""

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
DECLARE_ANOTHER = (
    "what it was declared with cannot be changed: declare another queue, and move its messages "
    "with a shovel"
)


def refusals(
    queue: QueueClient, kind: QueueKind, policy: Mapping[str, Any], later: Mapping[str, Any]
) -> list[str]:
    """The reasons, and what to do about them.

    kind: what it is to be. policy: the merged definition of its policies. later: that of the
    policies for a queue of the kind.
    """
    if queue.kind.name == kind.name or queue.kind.name not in CONVERTED:
        return [f"it is a {queue.kind.name} queue"]
    declared = _of_declaration(queue, kind)
    if declared:
        declared.append(DECLARE_ANOTHER)
    return declared + _of_options(queue, kind) + _of_policies(queue, kind, policy, later)


def _of_declaration(queue: QueueClient, kind: QueueKind) -> list[str]:
    properties = {
        "it is not durable": not queue.durable,
        "it is exclusive": queue.is_exclusive,
        "it is auto-delete": queue.auto_delete,
    }
    unknown = EVERY_ARGUMENT.difference(kind.arguments)
    return [text for text, is_so in properties.items() if is_so] + [
        f"{kind.name} queues have no argument {argument}"
        for argument in queue.arguments
        if argument in unknown
    ]


def _of_options(queue: QueueClient, kind: QueueKind) -> list[str]:
    """Options may be set by arguments and by policies."""
    refused = []
    expires_ms = queue.options.expires_ms
    if expires_ms is not None and expires_ms < EXPIRES_MS_MIN:
        refused.append(
            f"it may expire meanwhile: its x-expires must be at least {EXPIRES_MS_MIN} ms"
        )
    if kind.name == QUORUM and queue.options.overflow == REJECT_PUBLISH_DLX:
        refused.append(f"quorum queues have no overflow {REJECT_PUBLISH_DLX}: choose another one")
    return refused


def _of_policies(
    queue: QueueClient, kind: QueueKind, policy: Mapping[str, Any], later: Mapping[str, Any]
) -> list[str]:
    """Mirrors are ended by the conversion to quorum: the members of the queue replace them."""
    keys = [key for key in policy if not (kind.name == QUORUM and is_of_mirrors(key))]
    unknown = kind.refused_keys(keys)
    if unknown:
        return [
            f"a policy with the key {key} does not apply to {kind.name} queues: remove the key, or "
            "set its other keys by another policy"
            for key in unknown
        ]
    return [
        f"the policy that sets {key} does not apply to {kind.name} queues: set it by one that does"
        for key in keys
        if policy[key] != later.get(key)
    ]


def is_of_mirrors(key: str) -> bool:
    """Whether a key of a policy concerns mirrors only."""
    return key.startswith("ha-")


def too_much(messages: int, body_bytes: int) -> str | None:
    """The reason why this number of messages cannot be copied; None if they can."""
    if messages <= MESSAGES_MAX and body_bytes <= BYTES_MAX:
        return None
    return (
        f"it has {messages} messages with {body_bytes} bytes, and at most {MESSAGES_MAX} messages "
        f"with {BYTES_MAX} bytes are copied in one pause: all those of a quorum queue in which "
        "some expire or have priorities. Wait until it has fewer"
    )
