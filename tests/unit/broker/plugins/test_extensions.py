"""What installed packages add: found by name, and harmless if it is broken."""

import sys

import pytest

from leveret.broker.plugins.extensions import Extensions
from tests.installed_package import MODULE, install

GROUP = "leveret.test_numbers"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    def install_number(name, source="NUMBER = 7\n"):
        install(monkeypatch, tmp_path, GROUP, name, source, "NUMBER")

    return install_number


def test_a_package_adds_to_what_there_is(installed):
    installed("seven")
    numbers = Extensions(GROUP, {"one": 1})
    assert dict(numbers) == {"one": 1, "seven": 7}
    assert len(numbers) == 2
    assert numbers.load_installed() == {"seven": 7}


def test_own_names_need_no_package(installed):
    installed("seven")
    numbers = Extensions(GROUP, {"one": 1})
    assert numbers["one"] == 1
    assert MODULE not in sys.modules
    assert numbers["seven"] == 7
    assert MODULE in sys.modules


def test_an_unknown_name():
    numbers = Extensions(GROUP, {"one": 1})
    assert "seven" not in numbers
    with pytest.raises(KeyError):
        numbers["seven"]


def test_packages_are_looked_for_once(installed):
    numbers = Extensions(GROUP, {"one": 1})
    assert "seven" not in numbers
    installed("seven")
    assert "seven" not in numbers


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no licence')\n", "RuntimeError: no licence"),
        ("import a_module_that_is_missing\n", "No module named 'a_module_that_is_missing'"),
        ("", "AttributeError: "),
    ],
)
def test_what_cannot_be_loaded_is_logged_and_not_there(installed, caplog, source, reason):
    installed("seven", source)
    assert dict(Extensions(GROUP, {"one": 1})) == {"one": 1}
    (line,) = caplog.messages
    assert line.startswith(f"'seven' of {GROUP} cannot be loaded from {MODULE}:NUMBER: ")
    assert reason in line


def test_a_package_cannot_replace_an_existing_extension(installed, caplog):
    installed("one")
    assert dict(Extensions(GROUP, {"one": 1})) == {"one": 1}
    assert caplog.messages == [f"ignoring {MODULE}:NUMBER of {GROUP}: the name 'one' is taken"]
