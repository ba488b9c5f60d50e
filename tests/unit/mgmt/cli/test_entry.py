"""A node does not start on a system without PCRE2, and says what to install."""

import sys

import pytest

from leveret.broker import pcre2
from leveret.mgmt.cli import entry


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
