"""Fixtures: a broker in a thread, alone or with another node, and a check for internal errors."""

import asyncio
import gc
import logging
from types import SimpleNamespace

import pytest

from leveret.testing import EmbeddedBroker
from tests.linked_brokers import LinkedBrokers
from tests.patience import PATIENCE_SECONDS

UNFORESEEN = ("internal error", "failed in its turn", "could not be flushed")


def watch_event_loop(broker):
    """Collect what reaches the event loop's default exception handler."""
    slipped = []

    def install(_):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: slipped.append(context))

    broker.call(install)
    return slipped


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO, logger="leveret")


@pytest.fixture
def broker():
    """A broker in real time without internal errors."""
    yield from _serve()


@pytest.fixture
def timeless():
    """The same with a clock that moves only by `advance`."""
    yield from _serve(virtual_clock=True)


@pytest.fixture
def linked(broker):
    """Two nodes, of which `broker` is the near one."""
    loop = broker.call(lambda _: asyncio.get_running_loop())
    linked = broker.call(lambda embedded: LinkedBrokers(embedded.broker, far_listens=True))
    asyncio.run_coroutine_threadsafe(linked.start(), loop).result(PATIENCE_SECONDS)
    yield linked
    asyncio.run_coroutine_threadsafe(linked.far.stop(), loop).result(PATIENCE_SECONDS)


@pytest.fixture
def far_node(broker, linked):
    """Where clients of the far node connect to."""
    return SimpleNamespace(host=broker.host, port=broker.call(lambda _: linked.far_port))


@pytest.fixture
def no_collections():
    """The garbage collector does not run; it is no fault of a test what others have left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _serve(**arguments):
    with EmbeddedBroker.in_thread(**arguments) as broker:
        broker.slipped = watch_event_loop(broker)
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fail a test during which its broker had an internal error."""
    result = yield
    for name in ("broker", "timeless"):
        if name in pyfuncitem.funcargs:
            assert not pyfuncitem.funcargs[name].slipped
    if "caplog" in pyfuncitem.funcargs:
        messages = pyfuncitem.funcargs["caplog"].messages
        assert not [line for line in messages if any(text in line for text in UNFORESEEN)]
    return result
