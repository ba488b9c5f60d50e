"""What settings and command lines name, from a plugin: it is there as soon as the package is."""

import pytest

from leveret.broker.plugins.contributions import GROUP
from leveret.broker.plugins.extensions import Extensions
from tests.installed_package import install

SOURCE = """
from dataclasses import dataclass

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import TEXT
from leveret.broker.plugins.plugin import Plugin


@dataclass(frozen=True)
class Greetings:
    words: str = setting("greeter.words", TEXT, "hello", "What is said.")


def make(*_):
    return "made"


PLUGIN = Plugin(
    name="greeter", description="", version="1.0", interface=1,
    auth_backends={"guests": make}, peer_discovery={"alone": "package_beside_leveret:make"},
    settings={"greeter": Greetings}, commands={"greet": "package_beside_leveret"},
)
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    def of_group(field, source=SOURCE):
        install(monkeypatch, tmp_path, GROUP, "greeter", source, "PLUGIN")
        return Extensions(f"leveret.{field}", {}).load_installed()

    return of_group


@pytest.mark.parametrize(
    ("field", "name"), [("auth_backends", "guests"), ("peer_discovery", "alone")]
)
def test_backends(installed, field, name):
    found = installed(field)
    assert (list(found), found[name](None, None)) == ([name], "made")


def test_settings(installed):
    assert installed("settings")["greeter"]().words == "hello"


def test_commands(installed):
    assert installed("commands")["greet"].__name__ == "package_beside_leveret"


def test_others_are_there_only_while_the_plugin_runs(installed):
    assert installed("exchange_types") == {}


def test_a_plugin_that_cannot_be_loaded_is_named(installed, caplog):
    assert installed("auth_backends", "raise OSError('no disk')") == {}
    assert "plugin greeter cannot be loaded from package_beside_leveret:PLUGIN" in caplog.text
