"""The settings of links between nodes."""

from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import listed_setting, section, setting
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    MILLISECONDS,
    PATH,
    PORT,
    TEXT,
    Kind,
    one_of,
    size,
    whole_number,
)
from leveret.broker.runtime.node_address import NodeAddress, read_node_address

IGNORE, AUTOHEAL = "ignore", "autoheal"
PAUSE_MINORITY, PAUSE_IF_ALL_DOWN = "pause_minority", "pause_if_all_down"
"""The values of cluster_partition_handling."""


@dataclass(frozen=True)
class LinkTlsOptions:
    """The options of TLS between nodes, which verifies both sides.

    certfile: None for links without TLS. keyfile: None if the private key is in certfile.
    """

    certfile: Path | None = setting(
        "certfile",
        PATH,
        None,
        "This node's certificate for links to other nodes, with its chain; it makes all links use "
        "TLS. Its names must include the host of the node's name, and it must be valid both for "
        "servers and for clients.",
    )
    keyfile: Path | None = setting(
        "keyfile",
        PATH,
        None,
        "The private key of that certificate.",
        default_text="the certificate's file",
    )
    cacertfile: Path | None = setting(
        "cacertfile",
        PATH,
        None,
        "The authorities that certificates of other nodes are checked against; needed for TLS.",
    )
    password: str = setting(
        "password",
        TEXT,
        "",
        "The password of the key file.",
        default_text="none",
        is_secret=True,
    )


@dataclass(frozen=True)
class MembershipReconciliation:
    """When quorum queues with too few members get more."""

    is_enabled: bool = setting(
        "enabled",
        BOOLEAN,
        False,
        "Whether quorum queues with fewer members than their target get more, when there are nodes "
        "for them.",
    )
    removes: bool = setting(
        "auto_remove",
        BOOLEAN,
        False,
        "Whether members on nodes that are not in the cluster are removed, too.",
    )
    interval_ms: int = setting(
        "interval",
        MILLISECONDS,
        3_600_000,
        "How often each node looks at the quorum queues that it leads.",
    )
    trigger_interval_ms: int = setting(
        "trigger_interval",
        MILLISECONDS,
        10_000,
        "How long after a change of the nodes, of policies or of queues it looks at them.",
    )
    target_group_size: int = setting(
        "target_group_size",
        whole_number("members"),
        0,
        "How many members a quorum queue is to have at least. The policy target-group-size and the "
        "argument x-quorum-target-group-size can ask for more.",
        default_text="what policies and arguments ask for",
    )


@dataclass(frozen=True)
class ClusterSettings:
    """`config.cluster`."""

    port: int | None = setting(
        "cluster.port",
        PORT,
        None,
        "The port for links to other nodes; 0 disables them.",
        default_text="25672, and 20000 more than another port for AMQP",
        flag="cluster_port",
    )
    bind: str | None = setting(
        "cluster.ip distribution.listener.interface",
        HOST,
        None,
        "The interface that links of other nodes are accepted on.",
        default_text="that of the host in the node's name",
    )
    cookie: str = setting(
        "cluster.cookie",
        TEXT,
        "",
        "The secret that all nodes of a cluster share. It takes precedence over the files.",
        default_text="the content of the file",
        variable="LEVERET_COOKIE",
        is_secret=True,
    )
    cookie_file: Path | None = setting(
        "cluster.cookie_file",
        PATH,
        None,
        "The file with that secret, which only its owner may read.",
        default_text="cluster.cookie in the data directory, which is made if it is missing",
    )
    compression: str = setting(
        "cluster.compression",
        one_of("none", "lz4", "zstd", "deflate"),
        "none",
        "How data for other nodes is compressed. A node that cannot read lz4 or zstd gets deflate. "
        "lz4 and zstd need `pip install leveret[compression]`.",
    )
    tick_time_s: int = setting(
        "net_ticktime",
        whole_number("seconds", minimum=1),
        60,
        "How long another node may be silent before it counts as down.",
    )
    sync_batch_size: int = setting(
        "mirroring_sync_batch_size",
        whole_number("messages", minimum=1),
        4096,
        "How many messages are sent to a synchronising mirror at a time, unless a policy has "
        "`ha-sync-batch-size`.",
    )
    send_buffer_bytes: int = setting(
        "distribution_buffer_size",
        size(minimum=65_536),
        128_000 * 1024,
        "How much data may wait to be sent to another node before the senders are held back.",
        default_text="128000KiB",
    )
    start_waits_max: int = setting(
        "mnesia_table_loading_retry_limit",
        whole_number("waits", minimum=1),
        10,
        "How many times a starting node waits for a node that ran after it, before it gives up.",
    )
    start_wait_ms: int = setting(
        "mnesia_table_loading_retry_timeout",
        whole_number("milliseconds", minimum=1),
        30_000,
        "How long it waits each time.",
    )
    partition_handling: str = setting(
        "cluster_partition_handling",
        one_of(IGNORE, PAUSE_MINORITY, PAUSE_IF_ALL_DOWN, AUTOHEAL),
        IGNORE,
        "What a node does when it loses contact with others: continue; pause until it can reach "
        "more than half of the cluster, or one of the nodes of pause_if_all_down; or continue, and "
        "discard the changes of the losing side when all are back (autoheal).",
    )
    queue_master_locator: str = setting(
        "queue_master_locator",
        one_of("client-local", "min-masters", "random"),
        "client-local",
        "The node for a new classic queue: that of its client, one with the fewest queues, or any. "
        "The argument x-queue-master-locator and policies take precedence.",
    )
    queue_leader_locator: str = setting(
        "queue_leader_locator",
        one_of("client-local", "balanced", "random", "least-leaders"),
        "client-local",
        "The same for a new quorum queue. Balanced, with fewer than 1000 queues in all: one with "
        "the fewest; else any.",
    )
    membership_reconciliation: MembershipReconciliation = section(
        MembershipReconciliation, "quorum_queue.continuous_membership_reconciliation"
    )
    pause_if_all_down_nodes: tuple[NodeAddress, ...] = listed_setting(
        "cluster_partition_handling.pause_if_all_down.nodes.$name",
        Kind("a node such as rabbit@host", read_node_address),
        (),
        "A node for pause_if_all_down, which needs at least one: nodes that reach none of these "
        "pause.",
        default_text="none",
    )
    pause_if_all_down_recover: str = setting(
        "cluster_partition_handling.pause_if_all_down.recover",
        one_of(IGNORE, AUTOHEAL),
        IGNORE,
        "What the nodes do if both sides of a partition have one of these nodes.",
    )
    tls: LinkTlsOptions = section(LinkTlsOptions, "cluster.tls")

    @property
    def queue_locators(self) -> dict[str, str]:
        """The configured locators of queues, by `QueueKind.locator`."""
        return {
            "queue-master-locator": self.queue_master_locator,
            "queue-leader-locator": self.queue_leader_locator,
        }

    @property
    def heals_by_itself(self) -> bool:
        """Whether the losing side of a partition gives way when all nodes have met again."""
        return self.partition_handling == AUTOHEAL or (
            self.partition_handling == PAUSE_IF_ALL_DOWN
            and self.pause_if_all_down_recover == AUTOHEAL
        )
