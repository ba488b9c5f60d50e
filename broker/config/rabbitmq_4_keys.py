"""The keys that RabbitMQ 4.0 to 4.3 has in addition to those of 3.13.

With `compat = 4.x` a rabbitmq.conf of RabbitMQ 4 works here: a key in RABBITMQ_4_KEYS has no
effect, and a warning names it. Ignoring one of REFUSED_KEYS would give more users access. A key
that gets a meaning here moves to `settings`. A word that begins with `$` stands for any word.
"""

from leveret.broker.config.rabbitmq_keys import TLS_OPTIONS

CLIENTS = ("amqp10_client", "amqp_client")
OTHER_KEYS = """
    amqp10_client.ssl_options amqp_client.ssl_options anonymous_login_pass
    anonymous_login_user auth_http.authorization_failure_disclosure
    auth_oauth2.discovery_endpoint_params.$param auth_oauth2.discovery_endpoint_path
    auth_oauth2.jwks_uri auth_oauth2.oauth_providers.$name.algorithms.$algorithm
    auth_oauth2.oauth_providers.$name.default_key
    auth_oauth2.oauth_providers.$name.discovery_endpoint_params.$param
    auth_oauth2.oauth_providers.$name.discovery_endpoint_path
    auth_oauth2.oauth_providers.$name.signing_keys.$id
    auth_oauth2.resource_servers.$name.preferred_username_claims.$preferred_username_claims
    auth_oauth2.resource_servers.$name.scope_aliases.$alias
    auth_oauth2.resource_servers.$name.scope_aliases.$index.alias
    auth_oauth2.resource_servers.$name.scope_aliases.$index.scope cluster_exchange_limit
    channel_interceptor.priorities.$name cluster_formation.aws.ec2_instance_states.$state
    cluster_formation.aws.hostname_path.$number cluster_formation.k8s.ordinal_start
    cluster_formation.k8s.seed_node cluster_formation.registration.enabled cluster_tags.$tag
    consumer_disconnected_timeout default_policies.operator.$id.apply_to
    federation.exchanges.connection_close_timeout
    federation.exchanges.shutdown.link_batch_size
    federation.exchanges.shutdown.throttle_delay federation.exchanges.shutdown.timeout
    federation.queues.connection_close_timeout federation.queues.shutdown.link_batch_size
    federation.queues.shutdown.throttle_delay federation.queues.shutdown.timeout
    federation.shutdown.link_batch_size federation.shutdown.throttle_delay
    federation.shutdown.timeout http_dispatch.access_log_dir link_max_per_session
    log.error_logger_format_depth log.summarize_process_state log.user.file log.user.level
    log.user.rotation.compress log.user.rotation.count log.user.rotation.date
    log.user.rotation.size management.credential_encryption_secret
    management.definitions.require_json_extension management.delegate_count
    management.headers.referrer_policy management.http.hide_allow_header
    management.oauth_authorization_endpoint_params.$name
    management.oauth_resource_servers.$name.oauth_authorization_endpoint_params.$name
    management.oauth_resource_servers.$name.oauth_token_endpoint_params.$name
    management.oauth_token_endpoint_params.$name management.require_auth_for_api_reference
    management.ssl.max_connections management.tcp.max_connections management.test_config
    metadata_store.khepri.snapshot_interval
    mqtt.disconnect_on_unauthorized mqtt.max_connections
    mqtt.retained_message_store.max_messages mqtt.retained_message_store.max_size_bytes
    node_tags.$tag
    quorum_queue.member_placement_tag stomp.max_connections
    prevent_startup_if_node_was_reset prometheus.ssl.max_connections
    prometheus.tcp.max_connections queue_types.classic.enabled queue_types.quorum.enabled
    queue_types.stream.enabled quorum_queue.commands_soft_limit
    quorum_queue.compress_mem_tables quorum_queue.initial_cluster_size
    quorum_queue.max_append_entries_rpc_batch_size quorum_queue.segment_compute_checksums
    quorum_queue.segment_max_entries quorum_queue.segment_max_size_bytes
    quorum_queue.snapshot_chunk_size quorum_queue.wal_compute_checksums
    quorum_queue.wal_max_batch_size quorum_queue.wal_max_entries
    quorum_queue.wal_max_size_bytes raft.adaptive_failure_detector.detection_threshold
    raft.adaptive_failure_detector.heartbeat_interval
    raft.adaptive_failure_detector.scaling_factor session_max_per_connection
    shovel.delete_after_duration_floor shovel.local.max_credit shovel.operating_mode
    shovel.topology.predeclared stomp.max_frame_size_unauthenticated stream.data_dir
    stream.initial_frame_max stream.max_connections stream.max_super_stream_partitions
    stream.max_uncompressed_sub_entry_batch_size stream.read_ahead stream.read_ahead_limit
    stream.replication.address_family trust_store.https_request_timeout
    web_mqtt.allow_origins web_mqtt.allow_origins.$name web_mqtt.hsts.policy
    web_stomp.allow_origins web_stomp.allow_origins.$name web_stomp.hsts.policy
"""
RABBITMQ_4_KEYS = (
    *OTHER_KEYS.split(),
    *(f"{client}.ssl_options.{name}" for client in CLIENTS for name in TLS_OPTIONS.split()),
)
REFUSED_KEYS = (
    "auth_ldap.queries.tags",
    "auth_oauth2.require_exp",
    "auth_oauth2.resource_servers.$name.require_exp",
    "auth_oauth2.resource_servers.$name.scope_pattern_syntax",
    "auth_oauth2.resource_servers.$name.verify_aud",
    "auth_oauth2.scope_pattern_syntax",
    "http_dispatch.auth_backends.$num",
    "http_dispatch.auth_backends.$num.authn",
    "http_dispatch.auth_backends.$num.authz",
    "ssl_options.crl_sources.$index",
    "ssl_options.crl_sources.$index.path",
    "ssl_options.crl_sources.$index.timeout",
)
