"""Fixtures for tests of programs that use AMQP. Pytest has them wherever Leveret is installed.

amqp_broker: a broker for one test, in its own thread (`leveret.testing.ThreadedBroker`).
amqp_url: the broker's URL, with the default user and virtual host.

Pytest imports this module in every run of an environment, also where no test uses a broker. The
broker takes most of a second to import, so it is imported when the first fixture is set up.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leveret.testing import ThreadedBroker


@pytest.fixture
def amqp_broker() -> Iterator["ThreadedBroker"]:
    """A fresh broker that stops when the test ends."""
    from leveret.testing import EmbeddedBroker  # noqa: PLC0415

    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture
def amqp_url(amqp_broker: "ThreadedBroker") -> str:
    """The URL of the test's broker: `amqp://guest:guest@127.0.0.1:PORT/`."""
    return amqp_broker.url
