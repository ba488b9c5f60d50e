"""Queries of asynchronous backends, and how long their answers are kept."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.auth.access_control import ANSWER_MS, AccessControl
from leveret.broker.auth.identity import Identity
from leveret.broker.config import Config
from leveret.broker.runtime.pending_in_task import finish
from leveret.broker.runtime.virtual_clock import VirtualClock


class Backend:
    """Permits what is in `allowed` after a delay, and records queries."""

    def __init__(self, *allowed):
        self.allowed, self.asked = set(allowed), []

    async def answer(self, *question):
        self.asked.append(question)
        return question in self.allowed

    def may_use(self, identity, vhost, kind, name, permission):
        return self.answer(kind, name, permission)

    def may_use_topic(self, identity, vhost, exchange, routing_key, permission):
        return self.answer("topic", exchange, routing_key, permission)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def access(clock):
    return AccessControl(Config(), clock, internal=None, chain=None)


async def is_allowed(check, *question):
    try:
        await finish(check(*question))
    except ChannelFault:
        return False
    return True


async def test_a_topic_is_not_taken_for_a_queue(access):
    """An exchange may be called `queue`, and a routing key may equal a queue's name."""
    backend = Backend(("topic", "queue", "payroll", "read"))
    anna = Identity("anna", authorization=backend)
    assert await is_allowed(access.check_topic, anna, "/", "queue", "payroll", "read")
    assert not await is_allowed(access.check, anna, "/", "queue", "payroll", "read")


async def test_an_answer_is_kept_for_a_while(access, clock):
    backend = Backend(("queue", "q", "read"))
    anna = Identity("anna", authorization=backend)
    for _ in range(3):
        assert await is_allowed(access.check, anna, "/", "queue", "q", "read")
    assert len(backend.asked) == 1
    backend.allowed.clear()
    clock.advance(ANSWER_MS / 1000)
    assert not await is_allowed(access.check, anna, "/", "queue", "q", "read")
