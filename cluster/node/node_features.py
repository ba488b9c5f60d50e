"""The features that a node tells the others of, by name.

Nodes of versions that follow each other work together. What the earlier one would misread has a
feature here: it is sent only to nodes that have the feature, and kept in queues only when all nodes
of the cluster have it (docs/operate/upgrades.md). Each name is defined beside what it stands for.
"""

from typing import Final

from leveret.broker.exchanges.delayed import DELAYED_MESSAGES_FEATURE
from leveret.broker.queues.contract.retry_headers import RETRIES_FEATURE
from leveret.cluster.deduplication.seen_elsewhere import IDENTIFIERS_FEATURE
from leveret.cluster.node_status import clients_elsewhere, feature_flags
from leveret.cluster.quorum.machine.commands import (
    ANNOTATIONS_FEATURE,
    DEDUPLICATION_FEATURE,
    ON_TIME_FEATURE,
    QUORUM_RETRIES_FEATURE,
    QUORUM_TIMES_FEATURE,
)
from leveret.cluster.remote_queues import message_runs
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE
from leveret.cluster.retained import retained_copies

FEATURES: Final = feature_flags.NAMES | {
    retained_copies.FEATURE, clients_elsewhere.FEATURE, message_runs.EXPIRY_FEATURE,
    ANNOTATIONS_FEATURE, RETRIES_FEATURE, DEDUPLICATION_FEATURE, ON_TIME_FEATURE,
    QUORUM_RETRIES_FEATURE, IDENTIFIERS_FEATURE, DELAYED_MESSAGES_FEATURE, OWN_TIMES_FEATURE,
    QUORUM_TIMES_FEATURE,
}  # fmt: skip
