"""Waiting in asyncio tasks for the answers that methods of channels wait for.

Management handles requests in tasks. It awaits an `Answer`, and runs the coroutines of channel
methods, with these functions; broker/runtime/pending.py itself knows no event loop.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.broker.runtime.pending import Answer, Steps, Value, begin


async def in_task(answer: Answer[Value]) -> Value:
    """Wait in an asyncio task for an answer, and until the change that it reports is on disk.

    Raises the error that is given instead.
    """
    value = await given_in_task(answer)
    await given_in_task(answer.synced())
    return value


async def given_in_task(answer: Answer[Value]) -> Value:
    """Wait for an answer, not for a sync. Raises the error that is given instead."""
    await _until_given(answer)
    return answer.result()


async def finish(steps: Steps, check: Callable[[], object] = lambda: None) -> None:
    """Run a method in an asyncio task until it ends. Raises the method's errors.

    check: called each time before the method continues; its errors end the method.
    """
    awaited: Answer[Any] | None = None
    try:
        check()
        while (awaited := begin(steps)) is not None:
            await _until_given(awaited)
            check()
    finally:
        if awaited is not None:
            awaited.abandon()
        steps.close()


async def _until_given(answer: Answer[Any]) -> None:
    future = asyncio.get_running_loop().create_future()
    answer.when_given(lambda: None if future.done() else future.set_result(None))
    await future
