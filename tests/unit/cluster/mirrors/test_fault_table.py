"""The tests that docs/operate/mirrored-queues.md names for each fault are there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[3]
PAGE = TESTS.parent / "docs" / "operate" / "mirrored-queues.md"
FOLDERS = ("unit/cluster/gm", "unit/cluster/mirrors", "cluster", "sim", "jepsen")


def named():
    """The tests that the page names, each with its file."""
    file = ""
    for name in re.findall(r"`(test_\w+\.py|(?:Test\w+\.)?test_\w+)`", PAGE.read_text()):
        if name.endswith(".py"):
            file = name
        else:
            yield file, name


def those_of(path):
    """The tests of a file: `test_x`, or `TestX.test_x`."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (
                f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)
            )


def test_each_fault_names_tests_that_exist():
    known = {
        (path.name, test)
        for folder in FOLDERS
        for path in (TESTS / folder).glob("test_*.py")
        for test in those_of(path)
    }
    faults = list(named())
    assert len(faults) > 50
    assert [one for one in faults if one not in known] == []
