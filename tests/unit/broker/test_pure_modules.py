"""The modules that do no I/O import nothing with which they could.

What decides on bytes, routes and turns is a function of its arguments: it asks nobody for the
time, throws no dice and writes no log, so that it can be tested by example.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
IMPURE = frozenset({"asyncio", "socket", "os", "time", "random", "logging", "pathlib"})
PERMITTED = {"broker/exchanges/random_choice.py": {"random"}}
"""random_choice has the dice for its default; its tests bring their own."""

PURE = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "broker/amqp/*.py",
        "broker/exchanges/*.py",
        "broker/queues/[!_]*.py",
        "broker/channel/[!_]*.py",
        "broker/net/handshake.py",
        "storage/formats.py",
        "storage/intervals.py",
        "storage/ledger.py",
        "storage/message.py",
        "storage/paging.py",
    )
    for path in ROOT.glob(pattern)
    if path.parent.name not in ("queues", "channel")
    or path.stem
    in (
        "arguments", "dead_letter", "dispatch", "priority",
        "confirms", "unacked", "transaction", "content_assembler",
    )
)  # fmt: skip


def imported(source):
    """The top-level packages that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_modules_are_found():
    assert len(PURE) > 25
    for path in ("broker/amqp/frames.py", "broker/queues/dispatch.py", "broker/net/handshake.py"):
        assert path in PURE


@pytest.mark.parametrize("path", PURE)
def test_a_pure_module_imports_nothing_impure(path):
    found = imported((ROOT / path).read_text()) & IMPURE
    surplus = sorted(found - PERMITTED.get(path, set()))
    assert not surplus, f"{path} is to do without {', '.join(surplus)}"


def test_imports_are_seen_wherever_they_are():
    source = "import os.path as p\ndef f():\n    from time import sleep\nfrom . import socket\n"
    assert imported(source) == {"os", "time"}
