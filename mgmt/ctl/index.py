"""The index of commands: only the module of the command to run is imported.

This halves the time before the command contacts the node. An installed package names a command in
its entry points, in the group `leveret.commands`, with the module that registers it.
"""

from importlib import import_module
from types import ModuleType

from leveret.broker.plugins.extensions import Extensions
from leveret.mgmt.ctl.command import COMMANDS, CtlCommand

MODULES = {
    "checks": (
        "alarms", "check_alarms", "check_certificate_expiration",
        "check_if_any_deprecated_features_are_used",
        "check_if_cluster_has_classic_queue_mirroring_policy",
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "check_if_node_is_mirror_sync_critical", "check_if_node_is_quorum_critical",
        "check_local_alarms", "check_port_connectivity", "check_port_listener",
        "check_protocol_listener", "check_running", "check_virtual_hosts", "is_booting",
        "is_running", "node_health_check", "ping",
    ),
    "clustering": (
        "change_cluster_node_type", "force_boot", "forget_cluster_node", "join_cluster",
        "rename_cluster_node", "update_cluster_nodes",
    ),
    "conversion": ("convert_queue", "convert_queues"),
    "definitions": (
        "export_definitions", "import_definitions",
    ),
    "discarded": ("list_discarded", "publish_discarded"),
    "delayed": (
        "cancel_delayed_messages", "list_delayed_messages", "send_delayed_messages",
    ),
    "diagnostics": (
        "certificates", "cipher_suites", "consume_event_stream", "list_hashes",
        "list_network_interfaces", "listeners", "memory_breakdown", "observer",
        "resolve_hostname", "server_version", "tls_versions",
    ),
    "federation": ("federation_status", "restart_federation_link"),
    "listing": (
        "list_bindings", "list_channels", "list_connections", "list_consumers",
        "list_exchanges", "list_queues", "list_unresponsive_queues",
    ),
    "log_lines": ("log_tail", "log_tail_stream"),
    "migration": (
        "finish_migration", "migrate", "migration_status", "roll_back_migration",
    ),
    "mirrors": ("cancel_sync_queue", "rebalance", "sync_queue"),
    "node_commands": (
        "command_line_arguments", "enable_feature_flag", "list_deprecated_features",
        "list_feature_flags", "log_location", "os_env", "rotate_logs", "set_cluster_name",
        "set_disk_free_limit", "set_log_level", "set_vm_memory_high_watermark",
    ),
    "protocol_clients": ("list_mqtt_connections", "list_stomp_connections"),
    "plugins": ("directories", "disable", "enable", "is_enabled", "list", "set"),
    "delayed_retries": (
        "deliver_delayed_retries", "discard_delayed_retries", "list_delayed_retries",
    ),
    "policies": (
        "clear_global_parameter", "clear_operator_policy", "clear_parameter", "clear_policy",
        "list_global_parameters", "list_operator_policies", "list_parameters", "list_policies",
        "list_policies_that_match", "set_global_parameter", "set_operator_policy",
        "set_parameter", "set_policy",
    ),
    "quorum_queues": (
        "peek", "quorum_status", "reclaim_quorum_memory", "transfer_leader",
    ),
    "process": (
        "await_online_nodes", "await_online_quorum_plus_one",
        "await_online_synchronized_mirror", "await_startup", "force_reset", "post_upgrade",
        "reset", "shutdown", "start_app", "stop", "stop_app", "wait",
    ),
    "quorum_members": (
        "add_member", "delete_member", "force_all_queues_shrink_member_to_current_member",
        "force_shrink_member_to_current_member", "grow", "shrink",
    ),
    "retained": ("clear_retained_messages", "list_retained_messages"),
    "schema_replication": (
        "accept_schema_replication", "clear_schema_replication", "disable_schema_replication",
        "enable_schema_replication", "promote_warm_standby", "restart_schema_replication",
        "schema_replication_status", "set_schema_replication_upstream_endpoints",
    ),
    "shovels": ("delete_shovel", "restart_shovel", "shovel_status"),
    "status": (
        "cluster_status", "environment", "report", "status",
    ),
    "steering": (
        "close_all_connections", "close_all_user_connections", "close_connection",
        "delete_queue", "drain", "force_gc", "purge_queue", "resume_listeners", "revive",
        "suspend_listeners",
    ),
    "stream_clients": (
        "list_stream_connections", "list_stream_consumers", "list_stream_publishers",
    ),
    "stream_groups": (
        "activate_stream_consumer", "list_stream_consumer_groups", "list_stream_group_consumers",
    ),
    "stream_positions": (
        "copy_stream", "list_stream_tracking", "reset_offset", "reset_stream_offset",
    ),
    "streams": ("add_replica", "delete_replica", "restart_stream", "stream_status"),
    "super_streams": ("add_super_stream", "delete_super_stream"),
    "trace_logs": ("list_trace_logs", "trace_log_off", "trace_log_on"),
    "unroutable": ("forget_unroutable", "show_unroutable"),
    "users": (
        "add_user", "authenticate_user", "change_password", "clear_password",
        "clear_permissions", "clear_topic_permissions", "delete_user", "hash_password",
        "list_permissions", "list_topic_permissions", "list_user_permissions",
        "list_user_topic_permissions", "list_users", "set_permissions",
        "set_permissions_globally", "set_topic_permissions", "set_user_tags",
    ),
    "vhosts": (
        "add_vhost", "clear_user_limits", "clear_vhost_limits", "delete_vhost",
        "list_user_limits", "list_vhost_limits", "list_vhosts", "restart_vhost",
        "set_user_limits", "set_vhost_limits", "set_vhost_tags", "trace_off", "trace_on",
        "update_vhost_metadata",
    ),
}  # fmt: skip
COMMAND_MODULES: Extensions[str | ModuleType] = Extensions(
    "leveret.commands",
    {name: f"leveret.mgmt.ctl.{module}" for module, names in MODULES.items() for name in names},
)
"""The modules by the names of the commands that they register."""


def find(name: str) -> CtlCommand | None:
    """Find a command by its name."""
    if name not in COMMANDS:
        module = COMMAND_MODULES.get(name)
        if isinstance(module, str):
            import_module(module)
    return COMMANDS.get(name)


def all_commands() -> dict[str, CtlCommand]:
    """Return all commands."""
    for module in MODULES:
        import_module(f"leveret.mgmt.ctl.{module}")
    COMMAND_MODULES.load_installed()
    return COMMANDS
