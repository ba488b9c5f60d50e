"""Management asks the facade of a node (mgmt/node_facade) for objects and their figures.

A queue may be in another process or on another node (broker/queues/contract/status.py), so what
management shows of it comes from `figures`, and never from its backing queue, its ring of
consumers, an attribute that is private, or a test for one class of queues.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARTS_OF_A_QUEUE = {"backing", "ring"}
OF_NAMED_TUPLES = {"_asdict", "_replace"}
ITS_OWN = {"self", "cls", "super()"}
PERMITTED = {
    # A part of argparse, which has no public list of a parser's options.
    ("mgmt/perf/arguments.py", "reader._actions"),
    # Messages are browsed where they are.
    ("mgmt/node_facade/facade.py", "isinstance(it, ClassicQueue)"),
}
OF_THE_BROKER = {"broker", "mirrored_queues", "placement", "services"}
"""Attributes by which a module would get at the broker's objects beside the facade."""
BEHIND_THE_FACADE = ("api", "definitions", "metrics", "standby", "statistics", "views")
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "mgmt").rglob("*.py"))


def is_forbidden(node):
    if isinstance(node, ast.Attribute):
        if node.attr in PARTS_OF_A_QUEUE:
            return True
        is_private = node.attr.startswith("_") and not node.attr.startswith("__")
        is_own = ast.unparse(node.value) in ITS_OWN
        return is_private and not is_own and node.attr not in OF_NAMED_TUPLES
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
        return ast.unparse(node.args[1]).endswith("Queue")
    return False


def forbidden_in(source):
    """The expressions that reach into an object, with their lines."""
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(ast.parse(source))
        if is_forbidden(node)
    ]


@pytest.mark.parametrize("name", FILES)
def test_no_module_reaches_into_the_brokers_objects(name):
    found = forbidden_in((ROOT / name).read_text(encoding="utf-8"))
    assert not [one for one in found if (name, one[1]) not in PERMITTED]


def reaches_the_broker(source):
    return any(
        isinstance(node, ast.Attribute) and node.attr in OF_THE_BROKER
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("folder", BEHIND_THE_FACADE)
def test_the_broker_is_seen_through_the_facade_only(folder):
    files = [name for name in FILES if name.startswith(f"mgmt/{folder}/")]
    assert files
    assert not [one for one in files if reaches_the_broker((ROOT / one).read_text("utf-8"))]


@pytest.mark.parametrize(
    "expression",
    ["queue.backing.ready_count", "queue.ring", "connection._transport", "isinstance(x, Queue)"],
)
def test_an_expression_that_reaches_in_is_found(expression):
    assert forbidden_in(expression)


@pytest.mark.parametrize(
    "expression",
    ["queue.figures.status()", "self._node", "row._asdict()", "isinstance(x, Exchange)"],
)
def test_an_expression_that_asks_is_not(expression):
    assert not forbidden_in(expression)
