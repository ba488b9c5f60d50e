"""The fields of quorum queues that RabbitMQ 4.0 and 4.3 have added, in the API's JSON."""

from typing import Any

from leveret.broker.queues.contract.status import QuorumStatus

HIGH, NORMAL = 1, 0
"""The two levels of priority of 4.0."""


def quorum_fields(quorum: QuorumStatus, delayed: int) -> dict[str, Any]:
    """The fields by the rules that the queue follows; none by those of 3.x.

    delayed: the number of delayed messages.
    """
    if quorum.priorities == 1:
        return {}
    limit = quorum.delivery_limit
    fields: dict[str, Any] = {
        "delivery_limit": "unlimited" if limit is None else limit,
        "messages_ready_returned": quorum.returned,
    }
    if quorum.priorities == HIGH + 1:
        ready = dict(quorum.by_priority)
        fields["messages_ready_high"] = ready.get(HIGH, 0)
        fields["messages_ready_normal"] = ready.get(NORMAL, 0)
        return fields
    fields["messages_by_priority"] = {str(level): count for level, count in quorum.by_priority}
    fields["messages_active_priorities"] = len(quorum.by_priority)
    fields["delayed_retry"] = quorum.delayed_retry
    fields["messages_delayed"] = delayed
    if delayed:
        fields["next_delayed_at"] = quorum.next_delayed_ms
        fields["last_delayed_at"] = quorum.last_delayed_ms
    return fields
