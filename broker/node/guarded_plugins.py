"""Wrappers of a plugin's functions: errors and long turns are logged with the plugin's name.

The node's own objects are called directly; only contributions of plugins are wrapped.
"""

import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from time import perf_counter
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.events.events import Event
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.plugins.plugin import Plugin
from leveret.broker.runtime.loop_watch import NOTED_SECONDS, LoopWatch

logger = logging.getLogger("leveret.plugins")


def guarded(exchange_type: type[ExchangeType], name: str, plugin: Plugin) -> type[ExchangeType]:
    """A plugin's exchange type. Publishers get 541 if it raises anything other than an AMQP fault.

    name: in `exchange.declare`. Raises TypeError if it is not an exchange type.
    """
    if not (isinstance(exchange_type, type) and issubclass(exchange_type, ExchangeType)):
        raise TypeError(f"exchange type {name} is not a subclass of ExchangeType")
    route = exchange_type.route

    def found(
        table: ExchangeType, routing_key: str, header: ContentHeader
    ) -> Iterator[Destination | None]:
        # The plugin's code may raise anything, in the call or in the iteration.
        try:
            yield from route(table, routing_key, header)
        except Fault:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            logger.exception("%r: exchange type %s cannot route: %s", plugin, name, said)
            raise internal_error(
                f"exchange type {name} of {plugin!r} cannot route: {said}"
            ) from error

    members: dict[str, Any] = {"name": name, "route": found, "__module__": exchange_type.__module__}
    guarded_type: type[ExchangeType] = type(exchange_type.__name__, (exchange_type,), members)
    return guarded_type


def guarded_interceptor(
    intercept: Callable[[Any], object], plugin: Plugin
) -> Callable[[Any], object]:
    """A plugin's interceptor. Clients get 541 if it raises anything other than an AMQP fault."""

    def called(message: object) -> None:
        try:
            intercept(message)
        except Fault:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            logger.exception("%r: interceptor failed: %s", plugin, said)
            raise internal_error(f"an interceptor of {plugin!r} failed: {said}") from error

    return called


def guarded_listener(
    listener: Callable[[Event], object], plugin: Plugin
) -> Callable[[Event], object]:
    """A plugin's listener for events. An error is logged with the plugin's name, and the node
    removes the listener (broker/events/events.py).
    """

    def listen(event: Event) -> None:
        try:
            listener(event)
        except Exception as error:
            logger.error(
                "%r: listener failed on event %s, and is removed: %s: %s",
                plugin, event["event"], type(error).__name__, error,
            )  # fmt: skip
            raise

    return listen


class _Measured:
    """Awaits a coroutine, and notes its long steps."""

    def __init__(self, work: Coroutine[Any, Any, Any], watch: LoopWatch, cause: object) -> None:
        self._work = work
        self._watch = watch
        self._cause = cause

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            started = perf_counter()
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            finally:
                elapsed = perf_counter() - started
                if elapsed > NOTED_SECONDS:
                    self._watch.note(elapsed, self._cause)
            try:
                step = partial(self._work.send, (yield awaited))
            except BaseException as error:
                # The coroutine handles it, for example a cancellation.
                step = partial(self._work.throw, error)


async def measured(work: Coroutine[Any, Any, Any], watch: LoopWatch, cause: object) -> Any:
    """The coroutine; its steps that take long are noted as work for `cause`."""
    return await _Measured(work, watch, cause)
