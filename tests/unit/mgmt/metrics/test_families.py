"""The families have the names and types of RabbitMQ 3.13."""

import pytest

from leveret.mgmt.metrics import families

COUNTERS = """
    auth_attempts_detailed_failed_total auth_attempts_detailed_succeeded_total
    auth_attempts_detailed_total auth_attempts_failed_total auth_attempts_succeeded_total
    auth_attempts_total channel_get_ack_total channel_get_empty_total channel_get_total
    channel_messages_acked_total channel_messages_confirmed_total
    channel_messages_delivered_ack_total channel_messages_delivered_total
    channel_messages_published_total channel_messages_redelivered_total
    channel_messages_unroutable_dropped_total channel_messages_unroutable_returned_total
    channel_process_reductions_total connection_process_reductions_total
    channels_closed_total channels_opened_total connection_incoming_bytes_total
    connection_incoming_packets_total connection_outgoing_bytes_total
    connection_outgoing_packets_total connections_closed_total connections_opened_total
    erlang_gc_runs_total erlang_scheduler_context_switches_total
    global_messages_acknowledged_total global_messages_confirmed_total
    global_messages_dead_lettered_confirmed_total
    global_messages_dead_lettered_delivery_limit_total
    global_messages_dead_lettered_expired_total global_messages_dead_lettered_maxlen_total
    global_messages_dead_lettered_rejected_total
    global_messages_delivered_consume_auto_ack_total
    global_messages_delivered_consume_manual_ack_total
    global_messages_delivered_get_auto_ack_total
    global_messages_delivered_get_manual_ack_total global_messages_delivered_total
    global_messages_get_empty_total global_messages_received_confirm_total
    global_messages_received_total global_messages_redelivered_total
    global_messages_routed_total global_messages_unroutable_dropped_total
    global_messages_unroutable_returned_total io_read_bytes_total io_read_ops_total
    io_read_time_seconds_total io_reopen_ops_total io_seek_ops_total
    io_seek_time_seconds_total io_sync_ops_total io_sync_time_seconds_total
    io_write_bytes_total io_write_ops_total io_write_time_seconds_total msg_store_read_total
    msg_store_write_total queue_disk_reads_total queue_disk_writes_total
    queue_process_reductions_total
    queue_index_read_ops_total queue_index_write_ops_total queue_messages_published_total
    queues_created_total queues_declared_total queues_deleted_total raft_term_total
    schema_db_disk_tx_total schema_db_ram_tx_total
"""
GAUGES = """
    channel_acks_uncommitted channel_consumers channel_messages_unacked
    channel_messages_uncommitted channel_messages_unconfirmed channel_prefetch channels
    connection_channels connection_pending_packets connections consumer_prefetch consumers
    disk_space_available_bytes disk_space_available_limit_bytes erlang_scheduler_run_queue
    erlang_uptime_seconds exchange_bindings exchange_name global_consumers global_publishers
    process_max_fds process_max_tcp_sockets process_open_fds process_open_tcp_sockets
    process_resident_memory_bytes queue_consumer_capacity
    queue_consumer_utilisation queue_consumers queue_head_message_timestamp queue_messages
    queue_messages_bytes queue_messages_paged_out queue_messages_paged_out_bytes
    queue_messages_persistent queue_messages_persistent_bytes queue_messages_ram
    queue_messages_ram_bytes queue_messages_ready queue_messages_ready_bytes
    queue_messages_ready_ram queue_messages_unacked queue_messages_unacked_bytes
    queue_messages_unacked_ram queue_process_memory_bytes queues
    raft_entry_commit_latency_seconds raft_log_commit_index raft_log_last_applied_index
    raft_log_last_written_index raft_log_snapshot_index resident_memory_limit_bytes
    stream_consumer_max_offset_lag stream_segments
    unreachable_cluster_peers_count vhost_status
"""
UNTYPEDS = """
    alarms_file_descriptor_limit alarms_free_disk_space_watermark
    alarms_memory_used_watermark build_info identity_info
"""
LEFT_OUT = """
    erlang_gc_reclaimed_bytes_total erlang_net_ticktime_seconds erlang_processes_limit
    erlang_processes_used
"""
"""Families about Erlang's runtime only: see docs/operate/metrics.md."""


def all_families():
    """Return all families by name."""
    found = {}
    for group in vars(families).values():
        members = (group,) if isinstance(group, families.Family) else group
        if isinstance(members, tuple):
            found.update((one.name, one) for one in members if isinstance(one, families.Family))
    return found


@pytest.mark.parametrize(
    ("kind", "names"),
    [(families.COUNTER, COUNTERS), (families.GAUGE, GAUGES), (families.UNTYPED, UNTYPEDS)],
)
def test_rabbitmqs_families_are_there_with_their_types(kind, names):
    found = all_families()
    wrong = [name for name in names.split() if name not in found or found[name].kind != kind]
    assert wrong == []


def test_families_that_are_left_out_are_not_there_with_zeros():
    assert all_families().keys().isdisjoint(LEFT_OUT.split())


def test_counters_end_as_open_metrics_wants_it():
    counters = [one for one in all_families().values() if one.kind == families.COUNTER]
    assert all(one.name.endswith("_total") for one in counters)


def test_each_has_a_help_text_of_one_line():
    assert all(one.help and "\n" not in one.help for one in all_families().values())
