"""The fields of quorum queues that RabbitMQ 4.0 and 4.3 have added, in the API's JSON.

Classic queues with a delivery limit or delayed retries have some of them.
"""

from typing import Any

from leveret.broker.queues.contract.retry_delay import DISABLED
from leveret.broker.queues.contract.status import QuorumStatus, RetryStatus

HIGH, NORMAL = 1, 0
"""The two levels of priority of 4.0."""


def quorum_fields(quorum: QuorumStatus, delayed: int) -> dict[str, Any]:
    """The fields by the rules that the queue follows; by those of 3.x and 4.0, fields of delayed
    retries only if it has them.

    delayed: the number of delayed messages.
    """
    delays = _delays(quorum, delayed)
    has_delays = delayed > 0 or quorum.delayed_retry != DISABLED
    if quorum.priorities == 1:
        return {"delivery_limit": _limit(quorum.delivery_limit), **delays} if has_delays else {}
    fields: dict[str, Any] = {
        "delivery_limit": _limit(quorum.delivery_limit),
        "messages_ready_returned": quorum.returned,
    }
    if quorum.priorities == HIGH + 1:
        ready = dict(quorum.by_priority)
        fields["messages_ready_high"] = ready.get(HIGH, 0)
        fields["messages_ready_normal"] = ready.get(NORMAL, 0)
        return fields | delays if has_delays else fields
    fields["messages_by_priority"] = {str(level): count for level, count in quorum.by_priority}
    fields["messages_active_priorities"] = len(quorum.by_priority)
    return fields | delays


def retry_fields(retries: RetryStatus, delayed: int) -> dict[str, Any]:
    """The same fields of a classic queue. delayed: the number of delayed messages."""
    return {"delivery_limit": _limit(retries.delivery_limit), **_delays(retries, delayed)}


def _delays(status: QuorumStatus | RetryStatus, delayed: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"delayed_retry": status.delayed_retry, "messages_delayed": delayed}
    if delayed:
        fields["next_delayed_at"] = status.next_delayed_ms
        fields["last_delayed_at"] = status.last_delayed_ms
    return fields


def _limit(limit: int | None) -> int | str:
    return "unlimited" if limit is None else limit
