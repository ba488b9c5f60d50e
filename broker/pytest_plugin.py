"""Fixtures for tests of programs that talk AMQP. Installing Leveret is enough to have them.

amqp_broker: a broker of the test's own, in a thread (`broker.testing.ThreadedBroker`).
amqp_url: where it is.
"""

from collections.abc import Iterator

import pytest

from broker.testing import EmbeddedBroker, ThreadedBroker


@pytest.fixture
def amqp_broker() -> Iterator[ThreadedBroker]:
    """A fresh broker, which ends with the test."""
    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture
def amqp_url(amqp_broker: ThreadedBroker) -> str:
    """The URL of the test's broker."""
    return amqp_broker.url
