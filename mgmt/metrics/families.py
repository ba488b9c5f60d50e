"""The names, types and help texts of the metrics: those of rabbitmq_prometheus 3.13, so that its
dashboards work unchanged, and finally those that only Leveret has.

Names are without their prefix, which is `rabbitmq_`, `rabbitmq_detailed_` or, for values that are
the same on all nodes, `rabbitmq_cluster_`. Families are grouped as in RabbitMQ's
`/metrics/detailed?family=`; the rows that are added to a page follow this order. Families about
Erlang only (processes) are left out. Reductions, which dashboards sum up, are 0. `stream_segments`
is a gauge, because it also decreases.
"""

from typing import NamedTuple

COUNTER, GAUGE, UNTYPED, HISTOGRAM = "counter", "gauge", "untyped", "histogram"


class Family(NamedTuple):
    """One metric."""

    name: str
    kind: str
    help: str


Families = tuple[Family, ...]


def _all(kind: str, helps: dict[str, str]) -> Families:
    return tuple(Family(name, kind, text) for name, text in helps.items())


def _counters(**helps: str) -> Families:
    return _all(COUNTER, helps)


def _gauges(**helps: str) -> Families:
    return _all(GAUGE, helps)


# The node

CHURN = _counters(
    connections_opened_total="Total number of connections opened",
    connections_closed_total="Total number of connections closed or terminated",
    channels_opened_total="Total number of channels opened",
    channels_closed_total="Total number of channels closed",
    queues_declared_total="Total number of queues declared",
    queues_created_total="Total number of queues created",
    queues_deleted_total="Total number of queues deleted",
)
CONSUMER_TIMEOUTS = _counters(
    consumer_timeout_warnings_total="Deliveries held for most of their consumers' timeouts",
    consumer_timeouts_total="Consumers that held a delivery for longer than their timeout",
)
NODE_COARSE = (
    *_gauges(
        process_open_fds="Open file descriptors",
        process_open_tcp_sockets="Open TCP sockets",
        process_resident_memory_bytes="Memory used in bytes",
        disk_space_available_bytes="Disk space available in bytes",
    ),
    *_counters(
        erlang_gc_runs_total="Total number of Erlang garbage collector runs",
        erlang_scheduler_context_switches_total="Total number of Erlang scheduler context switches",
    ),
)
NODE = _gauges(
    process_max_fds="Open file descriptors limit",
    process_max_tcp_sockets="Open TCP sockets limit",
    resident_memory_limit_bytes="Memory high watermark in bytes",
    disk_space_available_limit_bytes="Free disk space low watermark in bytes",
    erlang_scheduler_run_queue="Erlang scheduler run queue",
    erlang_uptime_seconds="Node uptime",
)
STORE = _counters(
    io_read_ops_total="Total number of I/O read operations",
    io_read_bytes_total="Total number of I/O bytes read",
    io_write_ops_total="Total number of I/O write operations",
    io_write_bytes_total="Total number of I/O bytes written",
    io_sync_ops_total="Total number of I/O sync operations",
    io_seek_ops_total="Total number of I/O seek operations",
    io_reopen_ops_total="Total number of times files have been reopened",
    schema_db_ram_tx_total="Total number of Schema DB memory transactions",
    schema_db_disk_tx_total="Total number of Schema DB disk transactions",
    msg_store_read_total="Total number of Message Store read operations",
    msg_store_write_total="Total number of Message Store write operations",
    queue_index_read_ops_total="Total number of Queue Index read operations",
    queue_index_write_ops_total="Total number of Queue Index write operations",
    io_read_time_seconds_total="Total I/O read time",
    io_write_time_seconds_total="Total I/O write time",
    io_sync_time_seconds_total="Total I/O sync time",
    io_seek_time_seconds_total="Total I/O seek time",
)
RAFT = (
    *_counters(raft_term_total="Current Raft term number"),
    *_gauges(
        raft_log_snapshot_index="Raft log snapshot index",
        raft_log_last_applied_index="Raft log last applied index",
        raft_log_commit_index="Raft log commit index",
        raft_log_last_written_index="Raft log last written index",
        raft_entry_commit_latency_seconds="Time taken for a log entry to be committed",
    ),
)
AUTH = _counters(
    auth_attempts_total="Total number of authentication attempts",
    auth_attempts_succeeded_total="Total number of successful authentication attempts",
    auth_attempts_failed_total="Total number of failed authentication attempts",
)
AUTH_BY_SOURCE = _counters(
    auth_attempts_detailed_total="Total number of authentication attempts with source info",
    auth_attempts_detailed_succeeded_total=(
        "Total number of successful authentication attempts with source info"
    ),
    auth_attempts_detailed_failed_total=(
        "Total number of failed authentication attempts with source info"
    ),
)
ALARMS = _all(
    UNTYPED,
    {
        "alarms_file_descriptor_limit": "is 1 if file descriptor limit alarm is in effect",
        "alarms_free_disk_space_watermark": "is 1 if free disk space watermark alarm is in effect",
        "alarms_memory_used_watermark": "is 1 if VM memory watermark alarm is in effect",
    },
)
TOTALS = _gauges(
    connections="Connections currently open",
    channels="Channels currently open",
    consumers="Consumers currently connected",
    queues="Queues available",
)
UNREACHABLE = Family(
    "unreachable_cluster_peers_count",
    GAUGE,
    "Number of peers in the cluster the current node cannot reach.",
)
BUILD_INFO = Family("build_info", UNTYPED, "RabbitMQ & Erlang/OTP version info")
IDENTITY_INFO = Family("identity_info", UNTYPED, "RabbitMQ node & cluster identity info")
SHOVELS_DYNAMIC = Family("shovel_dynamic", GAUGE, "Number of dynamic shovels")
SHOVELS_STATIC = Family("shovel_static", GAUGE, "Number of static shovels")
FEDERATION_LINKS = Family("federation_links", GAUGE, "Number of federation links")

# Queues

QUEUE_COARSE = _gauges(
    queue_messages_ready="Messages ready to be delivered to consumers",
    queue_messages_unacked="Messages delivered to consumers but not yet acknowledged",
    queue_messages="Sum of ready and unacknowledged messages - total queue depth",
)
QUEUE_CONSUMERS = _gauges(queue_consumers="Consumers on a queue")
QUEUE = (
    *_gauges(
        queue_consumer_capacity="Consumer capacity",
        queue_consumer_utilisation="Same as consumer capacity",
        queue_process_memory_bytes="Memory in bytes used by the Erlang queue process",
        queue_messages_ram="Ready and unacknowledged messages stored in memory",
        queue_messages_ram_bytes="Size of ready and unacknowledged messages stored in memory",
        queue_messages_ready_ram="Ready messages stored in memory",
        queue_messages_unacked_ram="Unacknowledged messages stored in memory",
        queue_messages_persistent="Persistent messages",
        queue_messages_persistent_bytes="Size in bytes of persistent messages",
        queue_messages_bytes="Size in bytes of ready and unacknowledged messages",
        queue_messages_ready_bytes="Size in bytes of ready messages",
        queue_messages_unacked_bytes="Size in bytes of all unacknowledged messages",
        queue_messages_paged_out="Messages paged out to disk",
        queue_messages_paged_out_bytes="Size in bytes of messages paged out to disk",
        queue_head_message_timestamp="Timestamp of the first message in the queue, if any",
    ),
    *_counters(
        queue_disk_reads_total="Total number of times queue read messages from disk",
        queue_disk_writes_total="Total number of times queue wrote messages to disk",
        queue_process_reductions_total="Total number of queue process reductions",
    ),
    *_gauges(stream_segments="Total number of stream segment files"),
    *_counters(queue_duplicates_total="Messages that queues refused as duplicates"),
    *_gauges(
        queue_deduplication_identifiers="Identifiers that queues know to recognise duplicates",
        queue_messages_delayed="Returned messages that wait for their delayed retry",
        queue_next_delayed_timestamp_seconds=(
            "When the first of them is delivered again, in seconds since 1970; 0 if none waits"
        ),
    ),
    *_counters(
        queue_expired_on_time_total="Messages that expired at their times, wherever they were"
    ),
)
PUBLISHED = _counters(queue_messages_published_total="Total number of messages published to queues")

# Clients

CHANNEL = (
    *_gauges(
        channel_consumers="Consumers on a channel",
        channel_messages_unacked="Delivered but not yet acknowledged messages",
        channel_messages_unconfirmed="Published but not yet confirmed messages",
        channel_messages_uncommitted="Messages received in a transaction but not yet committed",
        channel_acks_uncommitted="Message acknowledgements in a transaction not yet committed",
        consumer_prefetch="Limit of unacknowledged messages for each consumer",
        channel_prefetch="Total limit of unacknowledged messages for all consumers on a channel",
    ),
    *_counters(channel_process_reductions_total="Total number of channel process reductions"),
)
_RETURNED = (
    "Total number of messages published as mandatory into an exchange and returned to the "
    "publisher as unroutable"
)
_DROPPED = (
    "Total number of messages published as non-mandatory into an exchange and dropped as unroutable"
)
CHANNEL_EXCHANGE = _counters(
    channel_messages_published_total=(
        "Total number of messages published into an exchange on a channel"
    ),
    channel_messages_confirmed_total=(
        "Total number of messages published into an exchange and confirmed on the channel"
    ),
    channel_messages_unroutable_returned_total=_RETURNED,
    channel_messages_unroutable_dropped_total=_DROPPED,
)
CHANNEL_QUEUE = _counters(
    channel_get_ack_total=(
        "Total number of messages fetched with basic.get in manual acknowledgement mode"
    ),
    channel_get_total=(
        "Total number of messages fetched with basic.get in automatic acknowledgement mode"
    ),
    channel_messages_delivered_ack_total=(
        "Total number of messages delivered to consumers in manual acknowledgement mode"
    ),
    channel_messages_delivered_total=(
        "Total number of messages delivered to consumers in automatic acknowledgement mode"
    ),
    channel_messages_redelivered_total="Total number of messages redelivered to consumers",
    channel_messages_acked_total="Total number of messages acknowledged by consumers",
    channel_get_empty_total="Total number of times basic.get operations fetched no message",
)
CONNECTION_COARSE = _counters(
    connection_incoming_bytes_total="Total number of bytes received on a connection",
    connection_outgoing_bytes_total="Total number of bytes sent on a connection",
)
CONNECTION = (
    *_counters(
        connection_incoming_packets_total="Total number of packets received on a connection",
        connection_outgoing_packets_total="Total number of packets sent on a connection",
    ),
    *_gauges(
        connection_pending_packets="Number of packets waiting to be sent on a connection",
        connection_channels="Channels on a connection",
    ),
    *_counters(
        connection_process_reductions_total="Total number of connection process reductions",
    ),
)

# Values that are the same on all nodes

VHOST_STATUS = Family("vhost_status", GAUGE, "Whether a given vhost is running")
EXCHANGE_BINDINGS = Family(
    "exchange_bindings", GAUGE, "Number of bindings for an exchange. This value is cluster-wide."
)
EXCHANGE_NAME = Family(
    "exchange_name",
    GAUGE,
    "Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper "
    "alternative to `exchange_bindings`",
)

# Counters of the node, which do not decrease when channels close and queues are deleted

GLOBAL = (
    *_counters(
        global_messages_received_total="Total number of messages received from publishers",
        global_messages_received_confirm_total=(
            "Total number of messages received from publishers expecting confirmations"
        ),
        global_messages_routed_total="Total number of messages routed to queues or streams",
        global_messages_unroutable_dropped_total=_DROPPED,
        global_messages_unroutable_returned_total=_RETURNED,
        global_messages_confirmed_total="Total number of messages confirmed to publishers",
    ),
    *_gauges(
        global_publishers="Current number of publishers",
        global_consumers="Current number of consumers",
    ),
)
STREAM_ERRORS = {
    name: _counters(
        **{
            f"global_stream_error_{name}_total": (
                f"Total number of {name.replace('_', '-')} errors of the stream protocol"
            )
        }
    )[0]
    for name in (
        "stream_does_not_exist", "subscription_id_already_exists",
        "subscription_id_does_not_exist", "stream_already_exists", "stream_not_available",
        "sasl_mechanism_not_supported", "authentication_failure", "sasl_error", "sasl_challenge",
        "sasl_authentication_failure_loopback", "vhost_access_failure", "unknown_frame",
        "frame_too_large", "internal_error", "access_refused", "precondition_failed",
        "publisher_does_not_exist",
    )
}  # fmt: skip
"""What clients of the stream protocol are refused with. They are shown if the node serves it."""
GLOBAL_BY_QUEUE_TYPE = _counters(
    global_messages_delivered_total="Total number of messages delivered to consumers",
    global_messages_delivered_consume_manual_ack_total=(
        "Total number of messages delivered to consumers using basic.consume with manual "
        "acknowledgment"
    ),
    global_messages_delivered_consume_auto_ack_total=(
        "Total number of messages delivered to consumers using basic.consume with automatic "
        "acknowledgment"
    ),
    global_messages_delivered_get_manual_ack_total=(
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment"
    ),
    global_messages_delivered_get_auto_ack_total=(
        "Total number of messages delivered to consumers using basic.get with automatic "
        "acknowledgment"
    ),
    global_messages_get_empty_total=(
        "Total number of times basic.get operations fetched no message"
    ),
    global_messages_redelivered_total="Total number of messages redelivered to consumers",
    global_messages_acknowledged_total="Total number of messages acknowledged by consumers",
)
DEAD_LETTERED = _counters(
    global_messages_dead_lettered_expired_total=(
        "Total number of messages dead-lettered due to message TTL exceeded"
    ),
    global_messages_dead_lettered_rejected_total=(
        "Total number of messages dead-lettered due to basic.reject or basic.nack"
    ),
    global_messages_dead_lettered_maxlen_total=(
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx"
    ),
    global_messages_dead_lettered_delivery_limit_total=(
        "Total number of messages dead-lettered due to delivery-limit exceeded"
    ),
    global_messages_dead_lettered_confirmed_total=(
        "Total number of messages dead-lettered and confirmed by target queues"
    ),
)

# Families that RabbitMQ 3.13 does not have. The first two groups are RabbitMQ 4's.

EXCHANGE = _counters(
    exchange_messages_published_total="Total number of messages published into an exchange",
    exchange_messages_routed_total="Total number of copies of them that queues got",
    exchange_messages_unroutable_total=(
        "Messages from the exchange that reached no queue, since an operator last forgot them"
    ),
)
EXCHANGE_DELAYED = _gauges(
    exchange_messages_delayed="Messages that wait at an exchange of the type x-delayed-message",
    exchange_next_delayed_timestamp_seconds=(
        "When the first of the waiting messages is due, in seconds since 1970; 0 if none waits"
    ),
)
EXCHANGE_DEDUPLICATION = (
    *_counters(exchange_duplicates_total="Messages that the exchange refused as duplicates"),
    *_gauges(
        exchange_deduplication_identifiers=(
            "Identifiers that the exchange knows to recognise duplicates"
        )
    ),
)
QUEUE_DELIVERY = _counters(
    queue_get_ack_total=(
        "Total number of messages fetched from a queue with basic.get in manual acknowledgement "
        "mode"
    ),
    queue_get_total=(
        "Total number of messages fetched from a queue with basic.get in automatic "
        "acknowledgement mode"
    ),
    queue_messages_delivered_ack_total=(
        "Total number of messages delivered from a queue to consumers in manual acknowledgement "
        "mode"
    ),
    queue_messages_delivered_total=(
        "Total number of messages delivered from a queue to consumers in automatic "
        "acknowledgement mode"
    ),
    queue_messages_redelivered_total=(
        "Total number of messages redelivered from a queue to consumers"
    ),
    queue_messages_acked_total="Total number of messages acknowledged by consumers on a queue",
    queue_get_empty_total=(
        "Total number of times basic.get operations fetched no message on a queue"
    ),
)
LOOP = (
    *_counters(
        event_loop_long_turns_total="Turns of the event loop of more than 20 ms of processor time",
        event_loop_long_turns_seconds_total="Processor time of these turns",
        event_loop_waits_total="Turns of the event loop that waited more than 20 ms",
    ),
    *_gauges(event_loop_longest_turn_seconds="Longest turn of the event loop since the start"),
)
QUORUM_QUEUES = _gauges(
    quorum_queues_without_leader="Quorum queues with a member on this node that have no leader",
    quorum_queue_members_behind=(
        "Members of quorum queues led by this node that lack more than 1,000 entries"
    ),
    quorum_queues_critical="Quorum queues that would lose their majority without this node",
)
STREAMS = _gauges(
    streams_without_leader="Streams with a member on this node that have no leader",
    streams_members_behind="Members of streams led by this node that lack more than 1,000 chunks",
    streams_critical="Streams that would lose their majority without this node",
)
STREAM_ROOM = _gauges(
    streams_bytes="Size of the files of streams with a member on this node",
    streams_consumers_near_retention=(
        "Consumers of streams on this node that lack more than nine tenths of the kept messages"
    ),
)
STREAM_LAG = _gauges(stream_consumer_max_offset_lag="Current maximum of offset lag of consumers")
LATE_CONFIRMS = Family(
    "mirrored_queues_with_late_confirms",
    GAUGE,
    "Mirrored queues with a member on this node that has waited for longer than net_ticktime: a "
    "leader for confirms, a mirror for messages",
)
RETAINED = _gauges(
    mqtt_retained_messages="Retained messages of MQTT on this node",
    mqtt_retained_message_bytes="Bytes of their topics, payloads and properties",
)
STANDBY = Family("schema_replication_state", GAUGE, "1 for the state of schema replication")
SYNCS = Family(
    "schema_replication_syncs_total", COUNTER, "Comparisons with the upstream, by their results"
)
SYNCED = (
    *_counters(schema_replication_changes_total="Objects added, changed and deleted by syncs"),
    *_gauges(
        schema_replication_last_sync_seconds="Duration of the last sync",
        schema_replication_last_complete_timestamp_seconds="When a sync was last complete",
        schema_replication_kept="Objects that the upstream lacks and that are in use here",
        schema_replication_problems="Objects of the upstream that cannot be declared here",
    ),
)
AGES = _gauges(
    queue_oldest_ready_age_seconds="Age of the oldest ready message of a queue",
    queue_oldest_unacked_age_seconds="Time since the oldest unacknowledged delivery of a queue",
)
TIME_IN_QUEUE = Family(
    "queue_time_in_queue_seconds", HISTOGRAM, "How long delivered messages had waited in a queue"
)
