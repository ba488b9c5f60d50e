"""The fixtures of pytest_plugin.py for tests with pytest-asyncio: brokers in the test's event loop.

It is a plugin apart, since it needs pytest-asyncio, which a project that uses Leveret may not have.
The fixtures are declared with pytest-asyncio's own decorator, so they work in its strict mode and
in its auto mode.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest_asyncio

if TYPE_CHECKING:
    from leveret.testing import EmbeddedBroker


@pytest_asyncio.fixture
async def async_amqp_broker(
    amqp_broker_options: dict[str, Any],
) -> AsyncIterator["EmbeddedBroker"]:
    """A fresh broker in the test's event loop."""
    async for broker in _serve(amqp_broker_options):
        yield broker


@pytest_asyncio.fixture
async def async_amqp_virtual_clock_broker(
    amqp_broker_options: dict[str, Any],
) -> AsyncIterator["EmbeddedBroker"]:
    """A fresh broker in the test's event loop, whose clock only `advance` moves."""
    async for broker in _serve({**amqp_broker_options, "virtual_clock": True}):
        yield broker


@pytest_asyncio.fixture
async def async_amqp_stream_broker(
    amqp_broker_options: dict[str, Any],
) -> AsyncIterator["EmbeddedBroker"]:
    """A fresh broker in the test's event loop that also serves clients of the stream protocol."""
    async for broker in _serve({**amqp_broker_options, "streams": True}):
        yield broker


async def _serve(options: dict[str, Any]) -> AsyncIterator["EmbeddedBroker"]:
    from leveret.testing import EmbeddedBroker  # noqa: PLC0415

    async with EmbeddedBroker(**options) as broker:
        yield broker
