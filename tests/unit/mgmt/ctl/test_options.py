"""Command line options are parsed like Elixir's OptionParser."""

import pytest

from leveret.mgmt.ctl.options import parse, read_option

OWN = [read_option(text) for text in ("limit=#", "user=", "if-empty|e", "number|N=#")]


def test_options_stand_anywhere():
    words, values, invalid = parse(["-p", "v", "list", "--user", "u", "name", "--limit=5"], OWN)
    assert (words, invalid) == (["list", "name"], [])
    assert values == {"vhost": "v", "user": "u", "limit": 5}


def test_flags_are_switched_off_with_no():
    assert parse(["--no-table-headers", "-e"], OWN).values == {
        "table_headers": False, "if_empty": True
    }  # fmt: skip
    assert parse(["--quiet=false"]).values == {"quiet": False}
    assert parse(["--quiet=maybe"]).invalid == [("--quiet", "maybe")]


def test_letters_of_flags_stand_together():
    assert parse(["-qs"]).values == {"quiet": True, "silent": True}
    assert parse(["-N", "3"], OWN).values == {"number": 3}
    assert parse(["-p=v"]).values == {"vhost": "v"}


def test_after_two_dashes_nothing_is_an_option():
    assert parse(["add_user", "--", "-anna", "--secret"]).words == ["add_user", "-anna", "--secret"]


def test_numbers_below_zero_are_words():
    assert parse(["set", "-1", "-0.5", "-"]).words == ["set", "-1", "-0.5", "-"]
    assert parse(["--limit", "-1"], OWN).values == {"limit": -1}


@pytest.mark.parametrize(
    ("arguments", "invalid"),
    [
        (["--bogus"], [("--bogus", "")]),
        (["--bogus=1"], [("--bogus", "1")]),
        (["-z"], [("-z", "")]),
        (["--limit", "x"], [("--limit", "x")]),
        (["--timeout", "1.5"], [("--timeout", "1.5")]),
        (["--vhost"], [("--vhost", "")]),
        (["--vhost", "--quiet"], [("--vhost", "")]),
        (["-p"], [("-p", "")]),
    ],
)
def test_wrong_options_are_collected(arguments, invalid):
    assert parse(arguments, OWN).invalid == invalid
