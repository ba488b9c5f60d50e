"""Calls those who wait for the store. One that fails is reported, and the others are called.

They are other modules' code. Their defect must not stop the log, or whoever else waits.
"""

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger("leveret.store")


def call(callback: Callable[[], object]) -> None:
    """Call it, and report an error."""
    try:
        callback()
    except Exception:
        logger.exception("%r failed, which the store has called", callback)


def call_each(callbacks: Iterable[Callable[[], object]]) -> None:
    """Call each of them, and report errors."""
    for callback in callbacks:
        call(callback)
