"""leveret-upgrade and leveret-streams: the commands of RabbitMQ's tools and no others."""

import pytest

from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.tool import LEVERET_STREAMS, LEVERET_UPGRADE

TOOLS = (LEVERET_UPGRADE, LEVERET_STREAMS)


@pytest.mark.parametrize("tool", TOOLS)
def test_it_lists_its_commands_only(tool, capsys):
    assert main(["help"], tool) == 0
    shown = capsys.readouterr().out
    assert f"{tool.name} [--node <node>]" in shown
    assert "leveretctl" not in shown
    own = shown.partition(tool.section)[2]
    for name in tool.names:
        assert f"   {name}" in own
    assert "list_queues" not in shown


@pytest.mark.parametrize("tool", TOOLS)
def test_a_command_of_leveretctl_is_not_one_of_it(tool, capsys):
    assert main(["list_queues"], tool) == 64
    assert "Command 'list_queues' not found" in capsys.readouterr().err
    assert main(["help", "list_queues"], tool) == 64
    assert "Command 'list_queues' not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "typed", "meant"),
    [(LEVERET_UPGRADE, "drian", "drain"), (LEVERET_STREAMS, "stream_statsu", "stream_status")],
)
def test_a_mistyped_name_is_corrected_to_one_of_its_own(tool, typed, meant, capsys):
    assert main([typed], tool) == 64
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool in TOOLS for name in tool.names])
def test_the_help_of_a_command_names_the_program(tool, name, capsys):
    assert main([name, "--help"], tool) == 0
    assert f"{tool.name} [--node <node>] [--longnames] [--quiet] {name}" in capsys.readouterr().out
