"""The sampler, in a broker that is embedded in the test."""

import aio_pika
import pytest

from broker.testing import EmbeddedBroker
from mgmt.statistics.sampler import CHURN, LENGTHS, MESSAGES, QUEUE, Sampler
