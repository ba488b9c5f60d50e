"""Marks tests that start a real RabbitMQ: `make test-interop` runs them, where it is installed.

CI does not. A RabbitMQ that starts slowly, or does not link, says nothing about a change; its
recorded answers, which CI does compare, are in tests/conformance and tests/mgmt/golden.
"""

import pytest

from tests.bench.brokers import RABBITMQ_HOMES

IS_INSTALLED = any(RABBITMQ_HOMES.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
INTEROP = [
    pytest.mark.interop,
    pytest.mark.skipif(not IS_INSTALLED, reason="RabbitMQ is not installed"),
]
