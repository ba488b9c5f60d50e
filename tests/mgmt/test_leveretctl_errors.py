"""Errors of `leveretctl` are sentences that name what was asked for and what was probably meant."""

import re

import pytest

from leveret.mgmt.ctl.leveretctl import main

USAGE, DATA_ERROR, NO_USER, UNAVAILABLE = 64, 65, 67, 69
ERLANG = re.compile(r"<<|>>|\{\w+,|not_found|badrpc|^[a-z]+_[a-z_]+$", re.MULTILINE)
POLICY = '{"max-length": 1}'

NAMED = [
    ("purge_queue -p {v} nosuch", UNAVAILABLE, "Queue 'nosuch' does not exist in vhost '{v}'"),
    ("purge_queue -p none nosuch", UNAVAILABLE, "Queue 'nosuch' does not exist in vhost 'none'"),
    ("delete_queue -p {v} nosuch", USAGE, "Queue 'nosuch' does not exist in vhost '{v}'"),
    ("peek -p {v} nosuch 1", UNAVAILABLE, "Target queue was not found in virtual host '{v}'"),
    ("peek -p {v} full 1", UNAVAILABLE, "Cannot peek into a classic queue"),
    ("reclaim_quorum_memory -p {v} full", UNAVAILABLE,
     "This operation is not applicable to classic queues"),
    ("delete_queue -p {v} full --if-empty", USAGE, "Queue 'full' in vhost '{v}' is not empty "
     "(messages: 1)"),
    ("clear_policy -p {v} nosuch", UNAVAILABLE, "Policy 'nosuch' does not exist in vhost '{v}'"),
    ("clear_operator_policy -p {v} nosuch", UNAVAILABLE,
     "Operator policy 'nosuch' does not exist in vhost '{v}'"),
    ("clear_parameter -p {v} shovel nosuch", UNAVAILABLE,
     "Parameter of component 'shovel' 'nosuch' does not exist in vhost '{v}'"),
    ("clear_global_parameter nosuch", UNAVAILABLE, "Global parameter 'nosuch' does not exist"),
    ("clear_vhost_limits -p {v}", UNAVAILABLE, "vhost '{v}' has no limits"),
    ("delete_vhost nosuch", DATA_ERROR, "Virtual host 'nosuch' does not exist"),
    ("list_permissions -p nosuch", DATA_ERROR, "Virtual host 'nosuch' does not exist"),
    ("delete_user nosuch", NO_USER, 'User "nosuch" does not exist'),
    ("set_permissions -p {v} nosuch . . .", NO_USER, "User nosuch does not exist"),
    ("set_permissions -p {v} guest [ . .", UNAVAILABLE,
     '"[" is not a valid regular expression: missing terminating ] for character class'),
    ("enable_feature_flag nosuch", USAGE, "Feature flag 'nosuch' is not supported by node"),
    ("close_connection nosuch reason", UNAVAILABLE, "there is no connection 'nosuch'"),
    ("wait --pid 4194305", UNAVAILABLE, "process 4194305 is not running"),
    ("set_policy -p {v} a . {{\"max-lenght\":1}}", UNAVAILABLE,
     '"max-lenght": 1 are not recognised policy settings'),
    ("set_policy -p {v} a . {{\"max-length\":\"a\"}}", UNAVAILABLE,
     '"a" is not a valid maximum length'),
    ("set_policy -p {v} a [ {{\"max-length\":1}}", UNAVAILABLE,
     "invalid: missing terminating ] for character class at position 1"),
    ("set_policy -p {v} a . max", UNAVAILABLE, "'max' is not JSON: "),
    ('set_policy -p {v} a . {{"max-length":{{"a":1}}}}', UNAVAILABLE,
     '{{"a": 1}} is not a valid maximum length'),
    ('set_policy -p {v} a . {{"x":[1,{{"b":true}}]}}', UNAVAILABLE,
     '"x": [1, {{"b": true}}] are not recognised'),
    ("set_vm_memory_high_watermark much", DATA_ERROR, "'much' is neither a fraction"),
    ("set_vm_memory_high_watermark absolute 5XB", DATA_ERROR, "'5XB' is not a size: "),
    ("set_disk_free_limit much", DATA_ERROR, "'much' is not a size: "),
    ("set_disk_free_limit 5XB", DATA_ERROR, "'5XB' is not a size: "),
    ("add_vhost a --default-queue-type best", USAGE, "queue type 'best': it is one of quorum"),
]  # fmt: skip

REFUSED_FIRST = [
    "set_disk_free_limit 900XB", "set_disk_free_limit 1.5GB", "set_disk_free_limit mem_relative x",
    "set_vm_memory_high_watermark absolute 900XB", "set_vm_memory_high_watermark 1.5",
    "rebalance nothing", "list_policies_that_match --object-type user a",
    "add_vhost a --default-queue-type best", "set_policy -p {v} a . max",
    "set_parameter -p {v} shovel a max",
    "set_parameter -p {v} vhost-limits limits {{\"max\":1}}", "set_global_parameter a max",
    "set_operator_policy -p {v} a . max", "set_vhost_limits -p {v} 5", "set_user_limits guest 5",
    "set_schema_replication_upstream_endpoints here", "consume_event_stream --pattern (a",
    "set_log_level loud", "resolve_hostname localhost --address-family ipv5",
]  # fmt: skip

MEANT = [
    ("list_queus", "Did you mean 'list_queues'?"),
    ("list_users --timout 3", "Did you mean '--timeout'?"),
    ("list_users --no-table-header", "Did you mean '--no-table-headers'?"),
    ("delete_queue q --if-emty", "Did you mean '--if-empty'?"),
    ("list_queues mesages nam", "Did you mean 'messages'?\nDid you mean 'name'?"),
    ("list_users --timeout soon", "--timeout takes a whole number\n"),
    ("list_users --vhost", "--vhost takes a value, and none is given\n"),
    ("list_users --quiet=maybe", "--quiet takes no value\n"),
]


@pytest.fixture
def error_of(node, vhost, capsys):
    """Runs a command that must fail; returns the exit code and the error output."""
    node.put(f"queues/{vhost}/full")
    node.publish(vhost, "full", "x")

    def run(text):
        words = [word.format(v=vhost) for word in text.split()]
        code = main(["--data-dir", str(node.data_dir), *words])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(("command", "code", "text"), NAMED, ids=[one[0] for one in NAMED])
def test_an_error_is_a_sentence_with_the_name(error_of, vhost, command, code, text):
    found_code, found = error_of(command)
    assert (found_code, text.format(v=vhost) in found) == (code, True), found
    assert not ERLANG.search(found), found


@pytest.mark.parametrize("command", REFUSED_FIRST)
def test_arguments_are_refused_before_anything_is_said_to_be_done(node, vhost, capsys, command):
    words = [word.format(v=vhost) for word in command.split()]
    assert main(["--data-dir", str(node.data_dir), *words]) != 0
    assert capsys.readouterr().out == ""


def test_policies_that_match_are_found_as_the_node_finds_them(node, vhost, capsys):
    node.put(f"policies/{vhost}/named", {"pattern": "(?<n>a)", "definition": {"max-length": 1}})
    assert (
        main(["--data-dir", str(node.data_dir), "-p", vhost, "list_policies_that_match", "a"]) == 0
    )
    assert "(?<n>a)" in capsys.readouterr().out


@pytest.mark.parametrize(("command", "text"), MEANT, ids=[one[0] for one in MEANT])
def test_what_was_meant_is_proposed(capsys, command, text):
    assert main(command.split()) == USAGE
    assert text in capsys.readouterr().err


def test_an_option_like_no_other_is_only_refused(capsys):
    assert main(["list_users", "--bogus"]) == USAGE
    shown = capsys.readouterr().err
    assert "--bogus : " in shown
    assert "Did you mean" not in shown


@pytest.mark.parametrize("command", ["help", "help list_queues", "list_users extra"])
def test_nothing_is_bold_with_no_color(capsys, monkeypatch, command):
    main(command.split())
    bold = capsys.readouterr()
    monkeypatch.setenv("NO_COLOR", "1")
    main(command.split())
    plain = capsys.readouterr()
    assert "\x1b[1m" in bold.out + bold.err
    assert "\x1b" not in plain.out + plain.err


def test_a_table_has_no_bold_headings_with_no_color(node, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    main(["--data-dir", str(node.data_dir), "list_users", "--formatter", "pretty_table"])
    assert "│ user" in capsys.readouterr().out
