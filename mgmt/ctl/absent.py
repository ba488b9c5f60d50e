"""Commands of RabbitMQ's tools that are not available, and the reason shown for each."""

_NO_ERLANG = "there is no Erlang in this node"
_NO_CLUSTER = "this is not possible in a cluster of Leveret yet"
_NO_COORDINATOR = "each stream has a leader of its own: stream_status shows it"
_ALWAYS_MIRRORED = (
    "mirroring is not a deprecated feature here: list_policies shows the policies with ha-mode"
)
_NO_ENCRYPTION = "values in the configuration file are not encrypted"
_NO_TRACKING = "login attempts are not counted; failed ones are in the log"

_BY_REASON = {
    _NO_ERLANG: (
        "eval", "eval_file", "exec", "remote_shell", "erlang_version", "erlang_cookie_hash",
        "erlang_cookie_sources", "hipe_compile", "runtime_thread_stats", "maybe_stuck",
        "schema_info", "resolver_info", "metadata_store_status", "force_standalone_khepri_boot",
    ),
    _NO_CLUSTER: (
        "discover_peers", "reconcile_vhosts",
    ),
    _NO_COORDINATOR: ("coordinator_status",),
    "set_policy sets max-age and max-length-bytes of streams": ("set_stream_retention_policy",),
    _ALWAYS_MIRRORED: (
        "remove_classic_queue_mirroring_from_policies",
        "list_policies_with_classic_queue_mirroring",
        "list_operator_policies_with_classic_queue_mirroring",
    ),
    _NO_ENCRYPTION: ("encode", "decode", "list_ciphers", "encrypt_conf_value"),
    _NO_TRACKING: (
        "list_node_auth_attempt_stats", "reset_node_auth_attempt_metrics",
        "enable_auth_attempt_source_tracking", "disable_auth_attempt_source_tracking",
    ),
    "there are no plugins to enable: status lists those whose work the node does": (
        "enable", "disable", "is_enabled", "set", "directories",
    ),
    "the free space is always watched; see set_disk_free_limit": (
        "activate_free_disk_space_monitoring", "deactivate_free_disk_space_monitoring",
    ),
}  # fmt: skip

ABSENT = {name: reason for reason, names in _BY_REASON.items() for name in names}
