"""The keys of RabbitMQ 3.13 that have no effect here.

A rabbitmq.conf must work here unchanged, so all keys of RabbitMQ 3.13 and of the plugins that ship
with it are known, and those that 3.9 to 3.12 had in addition. Their values are not checked. A key
that gets a meaning here moves to `settings`.

The lists follow the schema files of RabbitMQ and its plugins. Where the same options recur under
several prefixes (TLS, sockets, log rotation) each prefix has all of them: an option too many does
no harm, since it has no effect. A word that begins with `$` stands for any word.
"""

from collections.abc import Iterator


def _words(names: str) -> list[str]:
    return names.split()


def _under(prefixes: str, names: str) -> Iterator[str]:
    """Each name under each prefix."""
    for prefix in prefixes.split():
        yield from (f"{prefix}.{name}" for name in names.split())


SOCKET_OPTIONS = """
    backlog buffer delay_send dontroute exit_on_close fd high_msgq_watermark high_watermark
    keepalive linger.on linger.timeout low_msgq_watermark low_watermark nodelay port priority
    recbuf send_timeout send_timeout_close sndbuf tos
"""
TLS_OPTIONS = """
    bypass_pem_cache cacertfile cacerts.$name cert certfile ciphers.$cipher client_renegotiation
    crl_check depth dh dhfile fail_if_no_peer_cert honor_cipher_order honor_ecc_order
    hostname_verification key.DSAPrivateKey key.PrivateKeyInfo key.RSAPrivateKey keyfile log_alert
    log_level password psk_identity reuse_session reuse_sessions secure_renegotiate sni verify
    versions.$version
"""
HTTP_OPTIONS = """
    backlog compress idle_timeout inactivity_timeout ip listener max_keepalive port
    request_timeout shutdown_timeout
"""
COWBOY_OPTIONS = """
    idle_timeout max_empty_lines max_header_name_length max_header_value_length max_headers
    max_keepalive max_request_line_length timeout
"""
ROTATION_OPTIONS = "rotation.compress rotation.count rotation.date rotation.size"

NETWORK_KEYS = (
    *_words(
        """
        listeners.ssl listeners.ssl.$name num_acceptors.ssl num_acceptors.tcp proxy_protocol
        ranch_connection_max reverse_dns_lookups socket_writer.gc_threshold
        ssl_allow_poodle_attack ssl_cert_login_from
        ssl_cert_login_san_index ssl_cert_login_san_type ssl_handshake_timeout ssl_options
        tcp_listen_options distribution.listener.port_range.max
        distribution.listener.port_range.min
        """
    ),
    *_under("ssl_options", TLS_OPTIONS),
    *_under("tcp_listen_options", SOCKET_OPTIONS),
)

BROKER_KEYS = (
    *_words(
        """
        background_gc_enabled background_gc_target_interval classic_queue.default_version
        cluster_queue_limit collect_statistics
        credential_validator.min_length credential_validator.regexp
        credential_validator.validation_backend default_limits.vhosts.$id.max_connections
        default_limits.vhosts.$id.max_queues default_limits.vhosts.$id.pattern default_queue_type
        default_worker_pool_size definitions.hashing.algorithm definitions.https.url
        definitions.import_backend definitions.skip_if_unchanged delegate_count
        deprecated_features.permit.$name erlang.K event_exchange.protocol hipe_compile
        message_store_shutdown_timeout
        metadata_store.khepri.default_timeout
        mirroring_sync_max_throughput motd_file password_hashing_module product.name
        product.version quorum_queue.compute_checksums
        runtime_parameters.limits.$category tracing.password tracing.username vhost_max
        vhost_restart_strategy
        """
    ),
    *_under("default_users.$name", "configure password read tags vhost_pattern write"),
    *_under(
        "default_policies.operator.$id",
        """
        classic_queues.ha_mode classic_queues.ha_params classic_queues.ha_sync_mode
        classic_queues.queue_version delivery_limit expires max_in_memory_bytes
        max_in_memory_length max_length max_length_bytes message_ttl queue_pattern vhost_pattern
        """,
    ),
    *_under("definitions.tls", TLS_OPTIONS),
    *_under(
        "raft",
        """
        adaptive_failure_detector.poll_interval data_dir segment_max_entries snapshot_chunk_size
        wal_hibernate_after wal_max_batch_size wal_max_entries wal_max_size_bytes
        """,
    ),
    *_under("sysmon_handler.thresholds", "busy_ports busy_processes"),
    *_under(
        "sysmon_handler.triggers",
        """
        distribution_port port process.garbage_collection process.heap_size
        process.long_scheduled_execution
        """,
    ),
)

CLUSTER_KEYS = (
    *_words(
        """
        cluster_keepalive_interval aws.prefer_imdsv2
        """
    ),
    *_under(
        "cluster_formation",
        """
        internal_lock_retries proxy.http_proxy proxy.https_proxy proxy.proxy_exclusions.$name
        target_cluster_size_hint
        """,
    ),
    *_under(
        "cluster_formation.aws",
        """
        access_key_id hostname_path instance_tags instance_tags.$name region secret_key
        use_autoscaling_group use_private_ip
        """,
    ),
    *_under("cluster_formation", "consul.ssl_options consul.svc_id etcd.ssl_options"),
    *_under("cluster_formation.consul.ssl_options cluster_formation.etcd.ssl_options", TLS_OPTIONS),
    *_under("cluster_formation.k8s.tls", TLS_OPTIONS),
)

LOG_KEYS = (
    "log.console.use_colors",
    *_under(
        "log.console.color_esc_seqs", "alert critical debug emergency error info notice warning"
    ),
    *_under("log", "journald journald.fields journald.level"),
    *_under(
        "log.channel log.connection log.federation log.mirroring log.queue log.ra log.upgrade",
        f"file {ROTATION_OPTIONS}",
    ),
    *_under("log.federation log.mirroring log.ra log.upgrade", "level"),
    *_under("log.default", ROTATION_OPTIONS),
    *_under("log.syslog.ssl_options", TLS_OPTIONS),
)

ACCESS_KEYS = (
    "auth_backends.$num",
    *_under("auth_backends.$num", "authn authz"),
    *_under(
        "auth_cache",
        """
        cache_module cache_refusals cache_ttl cached_backend cached_backend.authn
        cached_backend.authz
        """,
    ),
    *_under(
        "auth_http",
        """
        connection_timeout http_method request_timeout resource_path ssl_options topic_path
        user_path vhost_path
        """,
    ),
    *_under(
        "auth_ldap",
        """
        connection_pool_size dn_lookup_attribute dn_lookup_base dn_lookup_bind
        dn_lookup_bind.password dn_lookup_bind.user_dn group_lookup_base idle_timeout log
        other_bind other_bind.password other_bind.user_dn port servers servers.$server ssl_options
        timeout use_ssl use_starttls user_bind_pattern user_dn_pattern
        """,
    ),
    *_under(
        "auth_oauth2",
        """
        additional_scopes_key algorithms.$algorithm authorization_endpoint default_key
        default_oauth_provider end_session_endpoint https.peer_verification issuer jwks_url
        preferred_username_claims.$claim resource_server_id resource_server_type scope_prefix
        signing_keys.$name token_endpoint verify_aud
        """,
    ),
    *_under(
        "auth_oauth2.oauth_providers.$name",
        "authorization_endpoint end_session_endpoint issuer jwks_uri token_endpoint",
    ),
    *_under(
        "auth_oauth2.resource_servers.$name",
        "additional_scopes_key id oauth_provider_id resource_server_type scope_prefix",
    ),
    *_under("trust_store", "directory providers.$name refresh_interval ssl_options url"),
    *_under("auth_http.ssl_options auth_ldap.ssl_options trust_store.ssl_options", TLS_OPTIONS),
    *_under("auth_oauth2.https auth_oauth2.oauth_providers.$name.https", TLS_OPTIONS),
)

MANAGEMENT_KEYS = (
    *_under(
        "management",
        """
        cors.allow_origins cors.allow_origins.$name cors.max_age csp.policy db_cache_multiplier
        disable_basic_auth disable_stats enable_queue_totals enable_uaa
        headers.content_type_options headers.frame_options headers.xss_protection hsts.policy
        http.max_body_size http_log_dir listener.ssl listener.ssl_opts login_session_timeout
        oauth_client_id oauth_client_secret oauth_disable_basic_auth oauth_enabled
        oauth_initiated_logon_type oauth_metadata_url oauth_provider_url oauth_response_type
        oauth_scopes path_prefix rates_mode restrictions.operator_policy_changes.disabled
        restrictions.quorum_queue_replica_operations.disabled
        sample_retention_policies.$section.$interval uaa_client_id uaa_client_secret uaa_location
        """,
    ),
    *_under(
        "management.oauth_resource_servers.$name",
        """
        disabled id label oauth_client_id oauth_client_secret oauth_initiated_logon_type
        oauth_metadata_url oauth_provider_url oauth_response_type oauth_scopes
        """,
    ),
    *_under("management.listener.server management.ssl management.tcp", HTTP_OPTIONS),
    *_under("management.listener.ssl_opts management.ssl", TLS_OPTIONS),
    *_under(
        "management_agent", "disable_metrics_collector filter_aggregated_queue_metrics_pattern"
    ),
    *_under("prometheus.ssl prometheus.tcp", HTTP_OPTIONS),
    *_under("prometheus.ssl", TLS_OPTIONS),
)

PROTOCOL_KEYS = (
    *_under(
        "amqp1_0",
        """
        convert_amqp091_headers_to_app_props convert_app_props_to_amqp091_headers default_user
        default_vhost protocol_strict_mode
        """,
    ),
    *_under(
        "mqtt stomp stream",
        """
        listeners.ssl listeners.ssl.$name listeners.tcp listeners.tcp.$name login_timeout
        num_acceptors.ssl num_acceptors.tcp proxy_protocol ssl_cert_login tcp_listen_options
        """,
    ),
    *_under(
        "mqtt.tcp_listen_options stomp.tcp_listen_options stream.tcp_listen_options",
        SOCKET_OPTIONS,
    ),
    *_under(
        "mqtt",
        """
        retained_message_store retained_message_store_dets_sync_interval
        """,
    ),
    *_under(
        "stomp",
        """
        default_nack_requeue default_pass default_topic_exchange default_user default_vhost
        hide_server_info implicit_connect max_frame_size
        """,
    ),
    *_under(
        "stream",
        """
        replication.port_range.max replication.port_range.min
        """,
    ),
    *_under(
        "web_mqtt web_stomp",
        """
        max_connections num_acceptors.ssl num_acceptors.tcp proxy_protocol
        use_file_handle_cache ws_opts.compress ws_opts.idle_timeout ws_opts.max_frame_size ws_path
        """,
    ),
    *_under("web_stomp", "port use_http_auth ws_frame"),
    *_under("web_mqtt.cowboy_opts web_stomp.cowboy_opts", COWBOY_OPTIONS),
    *_under("web_mqtt.ssl web_mqtt.tcp web_stomp.ssl web_stomp.tcp", HTTP_OPTIONS),
    *_under("web_mqtt.ssl web_stomp.ssl", TLS_OPTIONS),
)

RABBITMQ_KEYS = (
    *NETWORK_KEYS,
    *BROKER_KEYS,
    *CLUSTER_KEYS,
    *LOG_KEYS,
    *ACCESS_KEYS,
    *MANAGEMENT_KEYS,
    *PROTOCOL_KEYS,
)
