"""The kind of quorum queues, as declarations and consumers see it (the queues: cluster/quorum)."""

from leveret.broker.queues.contract.arguments import CONSUMER_TIMEOUT
from leveret.broker.queues.contract.queue_kind import (
    MIRRORING_POLICIES,
    QUORUM,
    QUORUM_ARGUMENTS,
    STREAM_POLICIES,
    QueueKind,
)

CREDIT_MAX = 2000

QUORUM_QUEUE = QueueKind(
    QUORUM,
    "rabbit_quorum_queue",
    QUORUM_ARGUMENTS,
    consumer_arguments=("x-priority", "x-credit", CONSUMER_TIMEOUT),
    policy_target="quorum_queues",
    unsupported_policies=frozenset(
        (
            *MIRRORING_POLICIES,
            *STREAM_POLICIES,
            "queue-mode",
            "max-priority",
        )
    ),
    policy_wins=frozenset(("overflow", "expires")),
    credit_max=CREDIT_MAX,
    is_replicated=True,
    may_be_transient=False,
    may_be_exclusive=False,
    may_be_auto_delete=False,
    may_be_named_by_server=False,
    has_global_qos=False,
)
