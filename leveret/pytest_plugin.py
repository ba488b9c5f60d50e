"""Fixtures for tests of programs that use AMQP. Pytest has them wherever Leveret is installed.

amqp_broker: a broker for one test, in its own thread (`leveret.testing.ThreadedBroker`).
amqp_url: the broker's URL, with the default user and virtual host.
amqp_virtual_clock_broker: the same with a clock that only `advance` moves.
amqp_stream_broker: with a listener for clients of RabbitMQ's stream protocol, on `stream_port`.
amqp_session_broker: one for the whole test run.
async_amqp_broker, async_amqp_virtual_clock_broker, async_amqp_stream_broker: in the test's event
loop, where pytest-asyncio is installed (pytest_asyncio_plugin.py).
amqp_broker_options: the arguments of all these brokers; a project defines its own.

Pytest imports this module in every run of an environment, also where no test uses a broker. The
broker takes most of a second to import, so it is imported when the first fixture is set up.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from leveret.testing import ThreadedBroker

PYTEST_ASYNCIO = ("asyncio", "pytest_asyncio.plugin")
"""The names of pytest-asyncio as a plugin: by its entry point, and by the option -p."""


def pytest_configure(config: pytest.Config) -> None:
    """Add the asyncio fixtures where pytest-asyncio is used, which they need."""
    if any(map(config.pluginmanager.hasplugin, PYTEST_ASYNCIO)):
        config.pluginmanager.import_plugin("leveret.pytest_asyncio_plugin")


@pytest.fixture(scope="session")
def amqp_broker_options() -> dict[str, Any]:
    """The arguments of `EmbeddedBroker` for all fixtures; a project overrides it."""
    return {}


@pytest.fixture
def amqp_broker(amqp_broker_options: dict[str, Any]) -> Iterator["ThreadedBroker"]:
    """A fresh broker that stops when the test ends."""
    yield from _serve(amqp_broker_options)


@pytest.fixture
def amqp_virtual_clock_broker(amqp_broker_options: dict[str, Any]) -> Iterator["ThreadedBroker"]:
    """A fresh broker whose clock stands still until `advance` is called."""
    yield from _serve({**amqp_broker_options, "virtual_clock": True})


@pytest.fixture
def amqp_stream_broker(amqp_broker_options: dict[str, Any]) -> Iterator["ThreadedBroker"]:
    """A fresh broker that also serves clients of the stream protocol."""
    yield from _serve({**amqp_broker_options, "streams": True})


@pytest.fixture(scope="session")
def amqp_session_broker(amqp_broker_options: dict[str, Any]) -> Iterator["ThreadedBroker"]:
    """A broker for all tests of the run, which keeps queues and records from test to test."""
    yield from _serve(amqp_broker_options)


def _serve(options: dict[str, Any]) -> Iterator["ThreadedBroker"]:
    from leveret.testing import EmbeddedBroker  # noqa: PLC0415

    with EmbeddedBroker.in_thread(**options) as broker:
        yield broker


@pytest.fixture
def amqp_url(amqp_broker: "ThreadedBroker") -> str:
    """The URL of the test's broker: `amqp://guest:guest@127.0.0.1:PORT/`."""
    return amqp_broker.url
