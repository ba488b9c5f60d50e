"""The last lines of the log in memory."""

import logging

from leveret.mgmt.log import recent_lines
from leveret.mgmt.log.recent_lines import RecentLines


def record(text):
    return logging.LogRecord("leveret", logging.INFO, "", 0, text, (), None)


def test_the_last_lines_are_kept(monkeypatch):
    monkeypatch.setattr(recent_lines, "LINES_MAX", 3)
    recent = RecentLines()
    for number in range(5):
        recent.handle(record(f"line {number}"))
    assert recent.last(2) == (["line 3", "line 4"], 5)
    assert recent.last(50) == (["line 2", "line 3", "line 4"], 5)
    assert recent.last(0) == ([], 5)
    assert recent.after(4) == (["line 4"], 5)
    assert recent.after(5) == ([], 5)
    assert recent.after(0).lines == ["line 2", "line 3", "line 4"]


def test_a_long_line_is_cut(monkeypatch):
    monkeypatch.setattr(recent_lines, "LINE_CHARACTERS_MAX", 4)
    recent = RecentLines()
    recent.handle(record("x" * 10))
    assert recent.last(1).lines == ["xxxx"]
