"""The `leveret` command finds its subcommands, and says what to install where PCRE2 is missing."""

import sys

import pytest

from leveret.broker.runtime import pcre2
from leveret.mgmt.cli import entry
from leveret.mgmt.cli.subcommands import SUBCOMMANDS, descriptions
from tests.installed_package import install_in


def missing(name):
    def fail(*arguments):
        raise ImportError(pcre2.MISSING, name=name)

    return fail


def test_a_missing_library_is_one_line_and_no_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["leveret", "serve"])
    monkeypatch.setattr(entry, "run_subcommand", missing(pcre2.NAME))
    with pytest.raises(SystemExit, match=r"^leveret: the library PCRE2 .* libpcre2-8-0 in Debian"):
        entry.main()


def test_another_missing_module_is_an_error_of_the_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["leveret", "serve"])
    monkeypatch.setattr(entry, "run_subcommand", missing("uvloop"))
    with pytest.raises(ImportError):
        entry.main()


def test_the_library_is_looked_for_in_directories_that_the_linker_does_not_know(monkeypatch):
    monkeypatch.setattr(pcre2, "FILES", ("libnone.so",))
    assert pcre2._load().pcre2_config_8
    monkeypatch.setattr(pcre2, "find_library", lambda name: None)
    with pytest.raises(ImportError, match="not installed"):
        pcre2._load()


HELLO = '''"""Say hello.

To the named user.
"""

def main(arguments):
    print("hello", *arguments)
    return 3
'''


def test_an_installed_package_has_a_subcommand(monkeypatch, tmp_path, capsys):
    install_in(monkeypatch, tmp_path, (SUBCOMMANDS,), "hello", HELLO)
    assert descriptions()["hello"] == "Say hello."
    monkeypatch.setattr(sys, "argv", ["leveret", "hello", "--name", "Anna"])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 3
    assert capsys.readouterr().out == "hello --name Anna\n"
