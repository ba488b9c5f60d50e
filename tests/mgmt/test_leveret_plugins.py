"""`leveret-plugins`, without a node and with one. Outputs and exit codes are RabbitMQ 3.10.8's."""

import json
import re

import pytest

from leveret.mgmt.ctl.tool import LEVERET_PLUGINS
from tests.mgmt.ctl_command import run_command
from tests.mgmt.served_node import ServedNode
from tests.ports import free_port

UNCHANGED = "Plugin configuration unchanged."


@pytest.fixture(autouse=True)
def no_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A function that runs a command where no node runs, with a file of enabled plugins."""
    file = tmp_path / "enabled_plugins"
    monkeypatch.setenv("RABBITMQ_ENABLED_PLUGINS_FILE", str(file))

    def run(*arguments):
        where = ("--data-dir", tmp_path, "--node", "leveret@host")
        return run_command(*where, *arguments, tool=LEVERET_PLUGINS)

    run.file = file
    return run


def test_enabling_without_a_node_writes_the_file(offline):
    done = offline("enable", "rabbitmq_stream", "rabbitmq_management")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Enabling plugins on node leveret@host:",
        "rabbitmq_stream",
        "rabbitmq_management",
        "The following plugins have been configured:",
        "  rabbitmq_management",
        "  rabbitmq_management_agent",
        "  rabbitmq_stream",
        "  rabbitmq_web_dispatch",
        "Applying plugin configuration to leveret@host...",
        "The following plugins have been enabled:",
        "  rabbitmq_management",
        "  rabbitmq_management_agent",
        "  rabbitmq_stream",
        "  rabbitmq_web_dispatch",
        "",
        "set 4 plugins.",
        "Offline change; changes will take effect at broker restart.",
    ]
    assert offline.file.read_text() == "[rabbitmq_stream,rabbitmq_management].\n"
    assert offline("enable", "rabbitmq_stream").stdout.splitlines()[-1] == UNCHANGED


def test_disabling_one_that_another_requires_disables_both(offline):
    offline.file.write_text("[rabbitmq_management,rabbitmq_stream].\n")
    shown = offline("disable", "rabbitmq_web_dispatch").stdout
    assert "  rabbitmq_management\n" in shown.partition("have been disabled:")[2]
    assert offline.file.read_text() == "[rabbitmq_stream].\n"
    assert offline("disable", "rabbitmq_mqtt").stdout.splitlines()[-1] == UNCHANGED
    shown = offline("disable", "--all").stdout
    assert shown.startswith("Disabling ALL plugins on node leveret@host\nAll plugins have been")


def test_setting_replaces_the_list(offline):
    offline.file.write_text("[rabbitmq_management].\n")
    assert offline("set", "rabbitmq_stream").stdout.splitlines()[2:] == [
        "The following plugins have been configured:",
        "  rabbitmq_stream",
        "Applying plugin configuration to leveret@host...",
        "set 1 plugins.",
    ]
    assert "All plugins have been disabled." in offline("set").stdout
    assert offline.file.read_text() == "[].\n"


def test_the_json_of_a_change(offline):
    done = offline("enable", "rabbitmq_stream", "--formatter", "json")
    assert json.loads(done.stdout) == [
        ["rabbitmq_stream"],
        {"enabled": ["rabbitmq_stream"], "mode": "offline", "set": ["rabbitmq_stream"]},
    ]


def test_the_list_marks_what_is_enabled(offline):
    offline.file.write_text("[rabbitmq_stream].\n")
    assert re.sub(r"\d+\.\d+\.\d+", "1", offline("list", "-E").stdout).splitlines() == [
        'Listing plugins with pattern ".*" ...',
        " Configured: E = explicitly enabled; e = implicitly enabled",
        " | Status: [failed to contact leveret@host - status not shown]",
        " |/",
        "[E ] rabbitmq_stream 1",
    ]
    assert "[e ] rabbitmq_shovel " in offline("list", "-q", "shovel").stdout
    assert offline("list", "-m", "-E", "-s").stdout == "rabbitmq_stream\n"
    assert offline("list", "-q", "-v", "rabbitmq_shovel_m").stdout.splitlines()[2:] == [
        "     Dependencies:\t[rabbitmq_management,rabbitmq_shovel]",
        "     Description: \tManagement of shovels",
    ]
    found = json.loads(offline("list", "rabbitmq_stream$", "--formatter", "json").stdout)
    (one,) = found.pop("plugins")
    assert found == {"format": "normal", "status": "node_down"}
    assert (one["enabled"], one["running"], one["running_version"]) == ("enabled", False, None)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["enable", "rabbitmq_nope"], 70, "Error:\n{:plugins_not_found, [:rabbitmq_nope]}\n"),
        (["set", "rabbitmq_nope"], 65, "Error:\nThe following plugins were not found: rabbitmq_no"),
        (["enable"], 64, "Error (argument validation): not enough arguments.\n"),
        (["enable", "--all", "x"], 65, "Error (argument validation): Bad argument: Cannot set bot"),
        (["disable", "--online", "--offline", "x"], 65, "Error (argument validation): Bad argume"),
        (["enable", "--online", "x"], 64, "Error: this command requires the target node to be ru"),
        (["is_enabled", "x"], 64, "Error: this command requires the target node to be running."),
        (["list", "-v", "-m"], 65, "Error (argument validation): Bad argument: Cannot set both v"),
        (["list", "("], 65, "Error (argument validation): Bad argument: '(' is not a regular exp"),
        (["list_queues"], 64, "\nCommand 'list_queues' not found."),
    ],
)
def test_what_is_refused(offline, arguments, code, text):
    done = offline(*arguments)
    assert (done.returncode, done.stderr[: len(text)]) == (code, text)
    assert not offline.file.exists()


def test_a_damaged_file_is_not_replaced(offline):
    offline.file.write_text("rabbitmq_stream\n")
    done = offline("enable", "rabbitmq_stream")
    assert (done.returncode, offline.file.read_text()) == (65, "rabbitmq_stream\n")
    assert f"Error:\n{offline.file}: " in done.stderr


def test_the_directories_and_what_is_enabled_by_the_file(offline):
    offline.file.write_text("[rabbitmq_stream].\n")
    shown = offline("directories", "--offline").stdout
    assert shown.startswith("Listing plugin directories inferred from local environment...\n")
    assert shown.endswith(f"Enabled plugins file: {offline.file}\n")
    done = offline("is_enabled", "--offline", "rabbitmq_stream", "rabbitmq_shovel")
    assert done.stdout.splitlines()[-1] == "Plugins rabbitmq_stream, rabbitmq_shovel are enabled"


@pytest.fixture(scope="class")
def node(tmp_path_factory):
    listener = f"stream.listeners.tcp.1 = 127.0.0.1:{free_port()}"
    served = ServedNode(tmp_path_factory.mktemp("node"), listener)
    yield served
    served.stop()


@pytest.fixture
def online(node):
    def run(*arguments):
        where = ("--data-dir", node.data_dir)
        return run_command(*where, *arguments, tool=LEVERET_PLUGINS)

    return run


def test_a_plugin_is_stopped_and_started_while_the_node_runs(node, online):
    def protocols():
        return {one["protocol"] for one in node.get("overview")["listeners"]}

    file = node.data_dir.parent / "enabled_plugins"
    assert "[E*] rabbitmq_stream " in online("list", "-E").stdout
    assert online("disable", "rabbitmq_stream").stdout.splitlines()[2:] == [
        "All plugins have been disabled.",
        "Applying plugin configuration to test@localhost...",
        "The following plugins have been disabled:",
        "  rabbitmq_stream",
        "",
        "stopped 1 plugins.",
    ]
    assert file.read_text() == "[].\n"
    assert "stream" not in protocols()
    done = online("is_enabled", "rabbitmq_stream")
    assert done.returncode == 69
    assert "Plugin rabbitmq_stream is not enabled on node test@localhost. Enabled " in done.stderr
    done = online("enable", "rabbitmq_stream", "--formatter", "json")
    stream = ["rabbitmq_stream"]
    assert json.loads(done.stdout)[1] == {
        "enabled": stream, "started": stream, "set": stream, "stopped": [], "mode": "online",
    }  # fmt: skip
    assert "stream" in protocols()
    (facts,) = node.get("nodes")
    assert {"rabbitmq_stream", "rabbitmq_management"} < set(facts["enabled_plugins"])


def test_one_that_is_not_installed_is_named_and_the_node_goes_on(node, online):
    file = node.data_dir.parent / "enabled_plugins"
    file.write_text("[rabbitmq_stream,my_greeter].\n")
    done = online("enable", "rabbitmq_shovel")
    assert done.returncode == 0, done.stderr
    node.stop()
    node.start()
    assert "plugin my_greeter is not installed" in node.log
    assert "[E ] my_greeter      not installed" in online("list", "-E").stdout
    assert "     Failure:     \tplugin my_greeter is not installed" in online("list", "-v").stdout
    for act in ("disable", "enable"):
        assert online(act, "rabbitmq_stream").returncode == 0
    assert online("set", "rabbitmq_stream").returncode == 0
