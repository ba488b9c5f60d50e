"""A route is found in steps of bounded work, whatever makes it long."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.router import Route
from tests.unit.broker.exchanges.test_router import Exchange, Queue

COUNT = 1000
ANY = {"x-match": ("S", "any"), "a": ("I", 1)}
HEADERS = {"a": ("I", 1), **{str(number): ("I", 1) for number in range(COUNT)}}
HEADER = read_header(encode_properties({"headers": HEADERS}))


class CountedQueue(Queue):
    """Counts how often any of them is looked at."""

    looked = 0

    @property
    def is_deleted(self):
        CountedQueue.looked += 1
        return False


QUEUES = [CountedQueue(str(number)) for number in range(COUNT)]


def fanout():
    return Exchange("fanout").lead_to(*QUEUES), [""]


def topic():
    exchange = Exchange("topic")
    for number, queue in enumerate(QUEUES):
        exchange.type.bind(queue, "#.a" if number % 2 else "*.a", {})
    return exchange, ["a.a"]


def headers():
    exchange = Exchange("headers")
    for queue in QUEUES:
        exchange.type.bind(queue, "", ANY)
    return exchange, [""]


def many_keys():
    exchange = Exchange("direct")
    for queue in QUEUES:
        exchange.type.bind(queue, queue.name, {})
    return exchange, [queue.name for queue in QUEUES]


def chain():
    first = exchange = Exchange("fanout")
    for queue in QUEUES:
        following = Exchange("fanout")
        exchange.lead_to(queue, following)
        exchange = following
    return first, [""]


def alternates():
    exchange = Exchange("fanout").lead_to(*QUEUES)
    for _ in range(COUNT):
        before = Exchange("direct")
        before.alternate = exchange
        exchange = before
    return exchange, [""]


ROUTES = [fanout, topic, headers, many_keys, chain, alternates]


def steps_of(found, work):
    """How often a queue was looked at in each step of finding a route."""
    counts = []
    is_complete = False
    while not is_complete:
        CountedQueue.looked = 0
        is_complete = found.go_on(work)
        counts.append(CountedQueue.looked)
    return counts


@pytest.mark.parametrize("make", ROUTES)
def test_a_step_looks_at_few_queues(make):
    exchange, keys = make()
    found = Route(exchange, keys, HEADER)
    counts = steps_of(found, 100)
    assert max(counts) <= 100
    assert len(counts) >= COUNT // 100
    assert found.work >= COUNT
    assert set(found.queues) == set(QUEUES)


@pytest.mark.parametrize("make", ROUTES)
def test_bindings_that_change_between_steps(make):
    exchange, keys = make()
    found = Route(exchange, keys, HEADER)
    added = Queue("added")
    while not found.go_on(10):
        for key in keys:
            exchange.type.bind(added, key, {})
            exchange.type.unbind(added, key, {})
    assert set(found.queues) - {added} == set(QUEUES)


def test_a_long_key_among_many_wildcards():
    exchange = Exchange("topic").lead_to(QUEUES[0], key=".".join(["#"] * 100))
    found = Route(exchange, [".".join(["a"] * 100)], HEADER)
    steps = 0
    while not found.go_on(100):
        steps += 1
    assert steps >= 99
    assert found.queues == [QUEUES[0]]
