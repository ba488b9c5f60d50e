"""Pending operations: a method waits for its answer, goes on from there, and never runs twice."""

import asyncio

import pytest

from leveret.broker.runtime.pending import Answer, PendingOperation, begin, given
from leveret.broker.runtime.pending_in_task import finish, in_task
from leveret.broker.runtime.virtual_clock import VirtualClock

TIMEOUT_MS = 1000


class LateError(Exception):
    """The error of an operation that takes too long."""


class Method:
    """A method that asks twice; `journal` records what it did."""

    def __init__(self):
        self.first, self.second = Answer(), Answer()
        self.journal = []

    async def steps(self):
        self.journal.append("began")
        try:
            self.journal.append(await self.first)
            self.journal.append(await self.second)
        finally:
            self.journal.append("ended")


@pytest.fixture
def clock():
    return VirtualClock()


def hold(clock, method):
    """Return the method, waiting for its first answer."""
    steps = method.steps()
    awaited = begin(steps)
    assert awaited is method.first
    return PendingOperation(
        steps, awaited, PendingOperation.step, clock, TIMEOUT_MS, lambda: LateError("too late")
    )


def test_answers_that_are_there_make_nothing_wait():
    method = Method()
    method.first.give(1)
    method.second.give(2)
    assert begin(method.steps()) is None
    assert method.journal == ["began", 1, 2, "ended"]


def test_a_method_goes_on_from_where_it_waited(clock):
    method = Method()
    operation = hold(clock, method)
    method.first.give(1)
    assert method.journal == ["began", 1]
    assert not operation.is_over
    method.second.give(2)
    assert method.journal == ["began", 1, 2, "ended"]
    assert operation.is_over


def test_an_error_is_raised_where_the_answer_is_awaited(clock):
    method = Method()
    hold(clock, method)
    with pytest.raises(ValueError, match="no"):
        method.first.refuse(ValueError("no"))
    assert method.journal == ["began", "ended"]


def test_an_answer_that_takes_too_long_is_an_error(clock):
    method = Method()
    operation = hold(clock, method)
    clock.advance(TIMEOUT_MS / 2000)
    method.first.give(1)
    with pytest.raises(LateError):
        clock.advance(TIMEOUT_MS / 1000)
    assert operation.is_over
    assert method.journal == ["began", 1, "ended"]


def test_a_closed_operation_goes_no_further(clock):
    method = Method()
    operation = hold(clock, method)
    operation.close()
    method.first.give(1)
    clock.advance(TIMEOUT_MS)
    assert method.journal == ["began", "ended"]


def test_the_first_answer_counts():
    answer = given(1)
    answer.give(2)
    answer.refuse(ValueError("ignored"))
    assert answer.result() == 1


def test_a_method_may_end_its_own_holder_and_then_have_to_wait(clock):
    answers, journal, operations = [Answer(), Answer()], [], []

    async def steps():
        journal.append(await answers[0])
        operations[0].close()
        journal.append(await answers[1])

    method = steps()
    operations.append(
        PendingOperation(method, begin(method), PendingOperation.step, clock, TIMEOUT_MS, LateError)
    )
    answers[0].give(1)
    answers[1].give(2)
    assert operations[0].is_over
    assert journal == [1]


async def test_a_task_awaits_an_answer():
    answer = Answer()
    asyncio.get_running_loop().call_soon(answer.give, 1)
    assert await in_task(answer) == 1


async def test_a_task_runs_a_method_to_its_end():
    method = Method()
    loop = asyncio.get_running_loop()
    loop.call_soon(method.first.give, 1)
    loop.call_soon(method.second.give, 2)
    await finish(method.steps())
    assert method.journal == ["began", 1, 2, "ended"]


async def test_a_method_that_may_not_go_on_is_ended():
    method = Method()
    asyncio.get_running_loop().call_soon(method.first.give, 1)

    def check():
        if method.first.is_given:
            raise LateError("the vhost is deleted")

    with pytest.raises(LateError):
        await finish(method.steps(), check)
    assert method.journal == ["began", "ended"]


def test_a_value_is_accepted_at_the_moment_it_is_given():
    accepted = []
    answer = Answer(accepted.append)
    answer.give(1)
    answer.give(2)
    assert accepted == [1]


@pytest.mark.parametrize("ending", ["closed", "too late"])
def test_a_value_that_is_no_longer_awaited_is_given_back(clock, ending):
    returned = []
    method = Method()
    method.first = Answer(give_back=returned.append)
    operation = hold(clock, method)
    if ending == "closed":
        operation.close()
    else:
        with pytest.raises(LateError):
            clock.advance(TIMEOUT_MS / 1000)
    method.first.give("a message")
    assert returned == ["a message"]
