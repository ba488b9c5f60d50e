"""Deletions of unused queues while the cluster accepts no changes or the disk is full."""

import logging

import pytest

from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.declaring import Declared
from tests.unit.broker.queues.fakes import FakeConsumer
from tests.unit.broker.vhost.test_virtual_host import FakeHolder, queue


class UnwillingLog:
    """A declaration log that takes nothing until it is told to. refused: what it did not take."""

    def __init__(self, vhost):
        self._taking = vhost._submit
        self.is_willing = False
        self.refused = []
        vhost._submit = self.submit

    def submit(self, *declarations, answer=None, **told):
        if self.is_willing:
            return self._taking(*declarations, answer=answer, **told)
        self.refused += [declaration.name for declaration in declarations]
        answer = answer or Answer()
        answer.refuse(NotTaken("no disc node is running"))
        return answer


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def vhost(clock):
    return Declared(clock=clock).vhost()


def test_exclusive_queues_are_deleted_when_changes_are_taken_again(vhost, clock, caplog):
    holder = FakeHolder()
    one, two = (queue(vhost, name, holder=holder) for name in ("one", "two"))
    log = UnwillingLog(vhost)
    with caplog.at_level(logging.WARNING):
        vhost.delete_queues([one, two], "deleting exclusive queues")
        clock.advance(2.5)
    assert log.refused == ["one", "two"] * 3
    (line,) = caplog.messages
    assert line.startswith("failed to delete 2 unused queues in vhost '/'; retrying every second: ")
    assert "no disc node is running" in line
    log.is_willing = True
    clock.advance(1)
    assert not vhost.queues


def test_a_queue_that_is_used_again_is_left_alone(vhost, clock):
    unused, used = queue(vhost, "unused"), queue(vhost, "used")
    log = UnwillingLog(vhost)
    vhost.delete_unused(unused, is_urgent=False)
    vhost.delete_unused(used, is_urgent=True)
    used.subscribe(FakeConsumer(), Answer())
    log.is_willing = True
    clock.advance(1)
    assert set(vhost.queues) == {"used"}


def test_nothing_is_tried_after_the_end(vhost, clock):
    held = queue(vhost, "q", holder=FakeHolder())
    log = UnwillingLog(vhost)
    vhost.delete_queues([held], "deleting exclusive queues")
    assert log.refused == ["q"]
    vhost.close()
    clock.advance(5)
    assert log.refused == ["q"]
