"""Help texts, and errors for commands that do not exist."""

import pytest

from leveret.mgmt.ctl import help as ctl_help
from leveret.mgmt.ctl.absent import ABSENT
from leveret.mgmt.ctl.index import COMMAND_MODULES, MODULES, all_commands
from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.similar_names import jaro
from leveret.mgmt.ctl.tool import LEVERET_PLUGINS, LEVERETCTL, OF_PLUGINS
from tests.installed_package import install_in

COMMANDS = all_commands()

RABBITMQCTL = """
    add_user add_vhost authenticate_user autocomplete await_online_nodes await_startup
    change_password clear_global_parameter clear_operator_policy clear_parameter clear_password
    clear_permissions clear_policy clear_topic_permissions clear_user_limits clear_vhost_limits
    close_all_connections close_all_user_connections close_connection cluster_status delete_queue
    delete_user delete_vhost enable_feature_flag environment export_definitions force_gc force_reset
    hash_password help import_definitions list_bindings list_channels list_connections
    list_consumers list_deprecated_features list_exchanges list_feature_flags list_global_parameters
    list_hashes list_operator_policies list_parameters list_permissions list_policies list_queues
    list_topic_permissions list_unresponsive_queues list_user_limits list_user_permissions
    list_user_topic_permissions list_users list_vhost_limits list_vhosts node_health_check ping
    purge_queue report reset restart_vhost resume_listeners rotate_logs set_cluster_name
    set_disk_free_limit set_global_parameter set_log_level set_operator_policy set_parameter
    set_permissions set_permissions_globally set_policy set_topic_permissions set_user_limits
    set_user_tags set_vhost_limits set_vhost_tags set_vm_memory_high_watermark shutdown start_app
    status stop stop_app suspend_listeners trace_off trace_on update_vhost_metadata version wait
    sync_queue cancel_sync_queue eval eval_file exec encode decode list_ciphers join_cluster
    forget_cluster_node change_cluster_node_type rename_cluster_node update_cluster_nodes force_boot
    hipe_compile schema_info reconcile_vhosts activate_free_disk_space_monitoring
    deactivate_free_disk_space_monitoring force_standalone_khepri_boot
    remove_classic_queue_mirroring_from_policies
"""
DIAGNOSTICS = """
    alarms certificates check_alarms check_certificate_expiration
    check_if_any_deprecated_features_are_used check_if_cluster_has_classic_queue_mirroring_policy
    check_local_alarms check_port_connectivity check_port_listener check_protocol_listener
    check_running check_virtual_hosts cipher_suites command_line_arguments consume_event_stream
    disable_auth_attempt_source_tracking discover_peers enable_auth_attempt_source_tracking
    erlang_cookie_hash erlang_cookie_sources erlang_version is_booting is_running
    list_network_interfaces list_node_auth_attempt_stats list_policies_that_match listeners
    log_location log_tail log_tail_stream maybe_stuck memory_breakdown metadata_store_status
    observer os_env remote_shell reset_node_auth_attempt_metrics resolve_hostname resolver_info
    runtime_thread_stats server_version tls_versions
"""
STREAMS = """
    activate_stream_consumer add_replica add_super_stream coordinator_status delete_replica
    delete_super_stream list_stream_connections list_stream_consumer_groups list_stream_consumers
    list_stream_group_consumers list_stream_publishers list_stream_tracking reset_offset
    restart_stream set_stream_retention_policy stream_status
"""


@pytest.mark.parametrize("name", (RABBITMQCTL + DIAGNOSTICS + STREAMS).split())
def test_every_command_of_rabbitmqs_tools_is_there_or_says_why_not(name, capsys):
    assert (name in COMMANDS) != (name in ABSENT)
    if name in ABSENT:
        assert main([name]) == 64
        assert f"Command '{name}' does not exist here: " in capsys.readouterr().err


@pytest.mark.parametrize("one", COMMANDS.values(), ids=list(COMMANDS))
def test_every_command_has_help(one, capsys):
    tool = LEVERET_PLUGINS if one.name in OF_PLUGINS else LEVERETCTL
    assert main(["help", one.name], tool) == 0
    shown = capsys.readouterr().out
    assert f"{tool.name} [--node <node>] [--longnames] [--quiet] {one.name}" in shown
    assert one.section in ctl_help.SECTIONS
    assert main([one.name, "--help"], tool) == 0
    assert capsys.readouterr().out == shown


def test_the_index_knows_where_every_command_is():
    found = {}
    for one in COMMANDS.values():
        found.setdefault(one.run.__module__.rpartition(".")[2], set()).add(one.name)
    del found["leveretctl"]
    assert {module: set(names) for module, names in MODULES.items()} == found


def test_columns_are_listed(capsys):
    main(["help", "list_queues"])
    shown = capsys.readouterr().out
    assert {"name", "messages_ready", "consumer_capacity"} <= set(shown.split())
    assert max(map(len, shown.partition("Columns")[2].splitlines())) < 100


def test_nothing_is_a_wrong_use(capsys):
    assert main([]) == 64
    printed = capsys.readouterr()
    assert (printed.out, "Available commands:" in printed.err) == ("", True)
    assert main(["--help"]) == 0
    assert "Available commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("first", "second", "similarity"),
    [("martha", "marhta", 0.9444), ("dixon", "dicksonx", 0.7667), ("abc", "xyz", 0), ("a", "a", 1)],
)
def test_similarity(first, second, similarity):
    assert jaro(first, second) == pytest.approx(similarity, abs=0.0001)


def test_names_are_completed(capsys):
    assert main(["--auto-complete", "list_u"]) == 0
    assert capsys.readouterr().out.split() == [
        "list_unresponsive_queues", "list_user_limits", "list_user_permissions",
        "list_user_topic_permissions", "list_users",
    ]  # fmt: skip
    assert main(["autocomplete", "--", "delete_queue", "--if"]) == 0
    assert capsys.readouterr().out.split() == ["--if-empty", "--if-unused"]


GREET = """
from leveret.mgmt.ctl.command import NOTHING, command

@command("greet", "<name>", "Greets somebody", "Greetings", needs=NOTHING)
def greet(ctl):
    ctl.out(f"Hello, {ctl.argument(0)}")
"""


@pytest.fixture
def greet(monkeypatch, tmp_path):
    install_in(monkeypatch, tmp_path, (COMMAND_MODULES,), "greet", GREET)
    yield
    COMMANDS.pop("greet")


@pytest.mark.usefixtures("greet")
def test_a_command_of_an_installed_package_is_run_listed_and_completed(capsys):
    assert main(["greet", "Anna"]) == 0
    assert main(["help"]) == 0
    assert main(["autocomplete", "gre"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Hello, Anna\n")
    assert "Greetings" in shown
    assert "\n   greet                         Greets somebody\n" in shown
    assert shown.endswith("\ngreet\n")
