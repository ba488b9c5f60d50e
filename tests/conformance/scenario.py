"""Scenarios: functions marked with `@scenario` in the modules of tests/conformance/scenarios.

A scenario takes a `Context` (context.py), asks the broker something and returns its transcript:
what the broker answered, as data that can become JSON. Its docstring says what it pins down. It may
take a `channel` of its own as well, and the name of a `queue`.
"""

import importlib
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "scenarios"
PARTS = {"channel": lambda ctx: ctx.channel(), "queue": lambda ctx: ctx.name("queue")}
_MARK = "_is_scenario"


class Scenario(NamedTuple):
    """subject: the name of its module."""

    subject: str
    name: str
    run: Callable

    @property
    def identifier(self):
        return f"{self.subject}.{self.name}"


def scenario(run):
    """Mark a function as a scenario, and give it the parts that it takes."""
    _, *parts = signature(run).parameters

    @wraps(run)
    def run_with_parts(ctx):
        return run(ctx, *(PARTS[part](ctx) for part in parts))

    setattr(run_with_parts, _MARK, True)
    return run_with_parts


def every_scenario():
    """The scenarios of every subject, in the order of the files."""
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        module = importlib.import_module(f"tests.conformance.scenarios.{path.stem}")
        functions = [value for value in vars(module).values() if hasattr(value, _MARK)]
        found += [Scenario(path.stem, function.__name__, function) for function in functions]
    return found
