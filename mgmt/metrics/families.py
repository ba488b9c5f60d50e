"""The names, types and help texts of metrics: those of rabbitmq_prometheus, so that its dashboards
show data as they are. What is about Erlang's runtime is left out; `ADDED` is what Leveret has more.

A family's name here is without the prefix, which is `rabbitmq_`, or `rabbitmq_detailed_`.
"""

from typing import NamedTuple

COUNTER, GAUGE, UNTYPED, HISTOGRAM = "counter", "gauge", "untyped", "histogram"


class Family(NamedTuple):
    """One metric."""

    name: str
    kind: str
    help: str


NODE = (
    Family("process_open_fds", GAUGE, "Open file descriptors"),
    Family("process_open_tcp_sockets", GAUGE, "Open TCP sockets"),
    Family("process_resident_memory_bytes", GAUGE, "Memory used in bytes"),
    Family("disk_space_available_bytes", GAUGE, "Disk space available in bytes"),
    Family("process_max_fds", GAUGE, "Open file descriptors limit"),
    Family("process_max_tcp_sockets", GAUGE, "Open TCP sockets limit"),
    Family("resident_memory_limit_bytes", GAUGE, "Memory high watermark in bytes"),
    Family("disk_space_available_limit_bytes", GAUGE, "Free disk space low watermark in bytes"),
    Family("erlang_uptime_seconds", GAUGE, "Node uptime"),
)
CHURN = (
    Family("connections_opened_total", COUNTER, "Total number of connections opened"),
    Family("connections_closed_total", COUNTER, "Total number of connections closed or terminated"),
    Family("channels_opened_total", COUNTER, "Total number of channels opened"),
    Family("channels_closed_total", COUNTER, "Total number of channels closed"),
    Family("queues_declared_total", COUNTER, "Total number of queues declared"),
    Family("queues_created_total", COUNTER, "Total number of queues created"),
    Family("queues_deleted_total", COUNTER, "Total number of queues deleted"),
)
ALARMS = (
    Family(
        "alarms_file_descriptor_limit", UNTYPED, "is 1 if file descriptor limit alarm is in effect"
    ),
    Family(
        "alarms_free_disk_space_watermark",
        UNTYPED,
        "is 1 if free disk space watermark alarm is in effect",
    ),
    Family(
        "alarms_memory_used_watermark", UNTYPED, "is 1 if VM memory watermark alarm is in effect"
    ),
)
TOTALS = (
    Family("connections", GAUGE, "Connections currently open"),
    Family("channels", GAUGE, "Channels currently open"),
    Family("consumers", GAUGE, "Consumers currently connected"),
    Family("queues", GAUGE, "Queues available"),
)
AUTH = (
    Family("auth_attempts_total", COUNTER, "Total number of authentication attempts"),
    Family(
        "auth_attempts_succeeded_total",
        COUNTER,
        "Total number of successful authentication attempts",
    ),
    Family("auth_attempts_failed_total", COUNTER, "Total number of failed authentication attempts"),
)
QUEUE_COARSE = (
    Family("queue_messages_ready", GAUGE, "Messages ready to be delivered to consumers"),
    Family(
        "queue_messages_unacked",
        GAUGE,
        "Messages delivered to consumers but not yet acknowledged",
    ),
    Family("queue_messages", GAUGE, "Sum of ready and unacknowledged messages - total queue depth"),
    Family("queue_process_reductions_total", COUNTER, "Total number of queue process reductions"),
)
QUEUE_CONSUMERS = (Family("queue_consumers", GAUGE, "Consumers on a queue"),)
QUEUE = (
    Family("queue_consumer_capacity", GAUGE, "Consumer capacity"),
    Family("queue_consumer_utilisation", GAUGE, "Same as consumer capacity"),
    Family("queue_process_memory_bytes", GAUGE, "Memory in bytes used by the Erlang queue process"),
    Family("queue_messages_ram", GAUGE, "Ready and unacknowledged messages stored in memory"),
    Family(
        "queue_messages_ram_bytes",
        GAUGE,
        "Size of ready and unacknowledged messages stored in memory",
    ),
    Family("queue_messages_ready_ram", GAUGE, "Ready messages stored in memory"),
    Family("queue_messages_unacked_ram", GAUGE, "Unacknowledged messages stored in memory"),
    Family("queue_messages_persistent", GAUGE, "Persistent messages"),
    Family("queue_messages_persistent_bytes", GAUGE, "Size in bytes of persistent messages"),
    Family("queue_messages_bytes", GAUGE, "Size in bytes of ready and unacknowledged messages"),
    Family("queue_messages_ready_bytes", GAUGE, "Size in bytes of ready messages"),
    Family("queue_messages_unacked_bytes", GAUGE, "Size in bytes of all unacknowledged messages"),
    Family("queue_messages_paged_out", GAUGE, "Messages paged out to disk"),
    Family("queue_messages_paged_out_bytes", GAUGE, "Size in bytes of messages paged out to disk"),
    Family(
        "queue_head_message_timestamp",
        GAUGE,
        "Timestamp of the first message in the queue, if any",
    ),
    Family(
        "queue_disk_reads_total",
        COUNTER,
        "Total number of times queue read messages from disk",
    ),
    Family(
        "queue_disk_writes_total",
        COUNTER,
        "Total number of times queue wrote messages to disk",
    ),
)
PUBLISHED = (
    Family(
        "queue_messages_published_total", COUNTER, "Total number of messages published to queues"
    ),
)
CHANNEL = (
    Family("channel_consumers", GAUGE, "Consumers on a channel"),
    Family("channel_messages_unacked", GAUGE, "Delivered but not yet acknowledged messages"),
    Family("channel_messages_unconfirmed", GAUGE, "Published but not yet confirmed messages"),
    Family(
        "channel_messages_uncommitted",
        GAUGE,
        "Messages received in a transaction but not yet committed",
    ),
    Family(
        "channel_acks_uncommitted",
        GAUGE,
        "Message acknowledgements in a transaction not yet committed",
    ),
    Family("consumer_prefetch", GAUGE, "Limit of unacknowledged messages for each consumer"),
    Family(
        "channel_prefetch",
        GAUGE,
        "Total limit of unacknowledged messages for all consumers on a channel",
    ),
)
CHANNEL_MESSAGES = (
    Family(
        "channel_messages_published_total",
        COUNTER,
        "Total number of messages published into an exchange on a channel",
    ),
    Family(
        "channel_messages_confirmed_total",
        COUNTER,
        "Total number of messages published into an exchange and confirmed on the channel",
    ),
    Family(
        "channel_messages_unroutable_returned_total",
        COUNTER,
        "Total number of messages published as mandatory into an exchange and returned to the "
        "publisher as unroutable",
    ),
    Family(
        "channel_messages_unroutable_dropped_total",
        COUNTER,
        "Total number of messages published as non-mandatory into an exchange and dropped as "
        "unroutable",
    ),
    Family(
        "channel_messages_delivered_ack_total",
        COUNTER,
        "Total number of messages delivered to consumers in manual acknowledgement mode",
    ),
    Family(
        "channel_messages_delivered_total",
        COUNTER,
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
    ),
    Family(
        "channel_get_ack_total",
        COUNTER,
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
    ),
    Family(
        "channel_get_total",
        COUNTER,
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
    ),
    Family(
        "channel_get_empty_total",
        COUNTER,
        "Total number of times basic.get operations fetched no message",
    ),
    Family(
        "channel_messages_redelivered_total",
        COUNTER,
        "Total number of messages redelivered to consumers",
    ),
    Family(
        "channel_messages_acked_total",
        COUNTER,
        "Total number of messages acknowledged by consumers",
    ),
)
"""In the order of `statistics.sampler.MESSAGES`."""
CONNECTION = (
    Family(
        "connection_incoming_bytes_total",
        COUNTER,
        "Total number of bytes received on a connection",
    ),
    Family(
        "connection_outgoing_bytes_total", COUNTER, "Total number of bytes sent on a connection"
    ),
    Family(
        "connection_process_reductions_total",
        COUNTER,
        "Total number of connection process reductions",
    ),
)
CONNECTION_PACKETS = (
    Family(
        "connection_incoming_packets_total",
        COUNTER,
        "Total number of packets received on a connection",
    ),
    Family(
        "connection_outgoing_packets_total",
        COUNTER,
        "Total number of packets sent on a connection",
    ),
    Family(
        "connection_pending_packets",
        GAUGE,
        "Number of packets waiting to be sent on a connection",
    ),
    Family("connection_channels", GAUGE, "Channels on a connection"),
)
GLOBAL = (
    Family(
        "global_messages_received_total",
        COUNTER,
        "Total number of messages received from publishers",
    ),
    Family(
        "global_messages_received_confirm_total",
        COUNTER,
        "Total number of messages received from publishers expecting confirmations",
    ),
    Family(
        "global_messages_routed_total",
        COUNTER,
        "Total number of messages routed to queues or streams",
    ),
    Family(
        "global_messages_unroutable_dropped_total",
        COUNTER,
        "Total number of messages published as non-mandatory into an exchange and dropped as "
        "unroutable",
    ),
    Family(
        "global_messages_unroutable_returned_total",
        COUNTER,
        "Total number of messages published as mandatory into an exchange and returned to the "
        "publisher as unroutable",
    ),
    Family(
        "global_messages_confirmed_total",
        COUNTER,
        "Total number of messages confirmed to publishers",
    ),
    Family("global_publishers", GAUGE, "Current number of publishers"),
    Family("global_consumers", GAUGE, "Current number of consumers"),
)
GLOBAL_BY_QUEUE_TYPE = (
    Family(
        "global_messages_delivered_total",
        COUNTER,
        "Total number of messages delivered to consumers",
    ),
    Family(
        "global_messages_delivered_consume_auto_ack_total",
        COUNTER,
        "Total number of messages delivered to consumers using basic.consume with automatic "
        "acknowledgment",
    ),
    Family(
        "global_messages_delivered_consume_manual_ack_total",
        COUNTER,
        "Total number of messages delivered to consumers using basic.consume with manual "
        "acknowledgment",
    ),
    Family(
        "global_messages_delivered_get_auto_ack_total",
        COUNTER,
        "Total number of messages delivered to consumers using basic.get with automatic "
        "acknowledgment",
    ),
    Family(
        "global_messages_delivered_get_manual_ack_total",
        COUNTER,
        "Total number of messages delivered to consumers using basic.get with manual "
        "acknowledgment",
    ),
    Family(
        "global_messages_get_empty_total",
        COUNTER,
        "Total number of times basic.get operations fetched no message",
    ),
    Family(
        "global_messages_redelivered_total",
        COUNTER,
        "Total number of messages redelivered to consumers",
    ),
    Family(
        "global_messages_acknowledged_total",
        COUNTER,
        "Total number of messages acknowledged by consumers",
    ),
)
DEAD_LETTERED = {
    "expired": Family(
        "global_messages_dead_lettered_expired_total",
        COUNTER,
        "Total number of messages dead-lettered due to message TTL exceeded",
    ),
    "maxlen": Family(
        "global_messages_dead_lettered_maxlen_total",
        COUNTER,
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
    ),
    "rejected": Family(
        "global_messages_dead_lettered_rejected_total",
        COUNTER,
        "Total number of messages dead-lettered due to basic.reject or basic.nack",
    ),
    "delivery_limit": Family(
        "global_messages_dead_lettered_delivery_limit_total",
        COUNTER,
        "Total number of messages dead-lettered due to delivery-limit exceeded",
    ),
}
DEAD_LETTERED_CONFIRMED = Family(
    "global_messages_dead_lettered_confirmed_total",
    COUNTER,
    "Total number of messages dead-lettered and confirmed by target queues",
)
STORE = (
    Family("io_read_ops_total", COUNTER, "Total number of I/O read operations"),
    Family("io_read_bytes_total", COUNTER, "Total number of I/O bytes read"),
    Family("io_write_ops_total", COUNTER, "Total number of I/O write operations"),
    Family("io_write_bytes_total", COUNTER, "Total number of I/O bytes written"),
    Family("io_sync_ops_total", COUNTER, "Total number of I/O sync operations"),
)
AGES = (
    Family("queue_oldest_ready_age_seconds", GAUGE, "Age of the oldest ready message of a queue"),
    Family(
        "queue_oldest_unacked_age_seconds",
        GAUGE,
        "Time since the oldest unacknowledged delivery of a queue",
    ),
)
TIME_IN_QUEUE = Family(
    "queue_time_in_queue_seconds",
    HISTOGRAM,
    "How long delivered messages had waited; the busiest queues, and the others together",
)
VHOST_STATUS = Family("vhost_status", GAUGE, "Whether a given vhost is running")
EXCHANGE_BINDINGS = Family("exchange_bindings", GAUGE, "Number of bindings for an exchange")
EXCHANGE_NAME = Family("exchange_name", GAUGE, "Enumerates exchanges")
BUILD_INFO = Family("build_info", UNTYPED, "RabbitMQ & Erlang/OTP version info")
IDENTITY_INFO = Family("identity_info", UNTYPED, "RabbitMQ node & cluster identity info")
