"""leveret-upgrade: rabbitmq-upgrade's commands and no others."""

import pytest

from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.tool import LEVERET_UPGRADE


def test_it_lists_its_commands_only(capsys):
    assert main(["help"], LEVERET_UPGRADE) == 0
    shown = capsys.readouterr().out
    assert "leveret-upgrade [--node <node>]" in shown
    assert "leveretctl" not in shown
    upgrade = shown.partition("Upgrade")[2]
    for name in LEVERET_UPGRADE.names:
        assert f"   {name}" in upgrade
    assert "list_queues" not in shown


def test_a_command_of_leveretctl_is_not_one_of_it(capsys):
    assert main(["list_queues"], LEVERET_UPGRADE) == 64
    assert "Command 'list_queues' not found" in capsys.readouterr().err
    assert main(["help", "list_queues"], LEVERET_UPGRADE) == 64
    assert "Command 'list_queues' not found" in capsys.readouterr().err


def test_a_mistyped_name_is_corrected_to_one_of_its_own(capsys):
    assert main(["drian"], LEVERET_UPGRADE) == 64
    assert "Did you mean 'drain'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", LEVERET_UPGRADE.names)
def test_the_help_of_a_command_names_the_program(name, capsys):
    assert main([name, "--help"], LEVERET_UPGRADE) == 0
    assert f"leveret-upgrade [--node <node>] [--longnames] [--quiet] {name}" in (
        capsys.readouterr().out
    )
