"""Runs the callbacks of the store. A failing callback is reported, and the rest are called.

Callbacks are other modules' code. A defect in one must not stop the log or other callbacks.
"""

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger("leveret.store")


def call(callback: Callable[[], object]) -> None:
    """Run a callback, and report an error."""
    try:
        callback()
    except Exception:
        logger.exception("a callback of the store failed: %r", callback)


def call_each(callbacks: Iterable[Callable[[], object]]) -> None:
    """Run each callback, and report errors."""
    for callback in callbacks:
        call(callback)
