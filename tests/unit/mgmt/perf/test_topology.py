"""Assignment of queues and routing keys to clients, and of clients to processes."""

import pytest

from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.run import shares
from leveret.mgmt.perf.topology import key_of_producer, queues_of_consumer


def options(**given):
    return PerfOptions(["amqp://localhost"], "x", **given)


def test_without_names_each_consumer_has_a_queue_of_its_own():
    assert [queues_of_consumer(options(), number) for number in range(2)] == [[""], [""]]


def test_all_consumers_have_all_queues_that_are_named():
    named = options(queues=["a", "b"], routing_key="k")
    assert [queues_of_consumer(named, number) for number in range(2)] == [["a", "b"]] * 2
    assert [key_of_producer(named, number) for number in range(2)] == ["k", "k"]


def test_queues_of_a_pattern_are_taken_in_turns():
    pattern = options(queue_pattern="q-%03d", queue_pattern_from=9, queue_pattern_to=11)
    expected = ["q-009", "q-010", "q-011", "q-009"]
    assert [queues_of_consumer(pattern, number) for number in range(4)] == [[q] for q in expected]
    assert [key_of_producer(pattern, number) for number in range(4)] == expected


def test_queues_of_a_file_are_taken_in_turns_and_may_have_one_key():
    file = options(queues=["a", "b"], is_sequence=True, routing_key="k")
    assert [queues_of_consumer(file, number) for number in range(3)] == [["a"], ["b"], ["a"]]
    assert key_of_producer(file, 1) == "k"


def test_the_default_exchange_is_given_the_names_of_queues():
    named = options(exchange="", queues=["a", "b"])
    assert [key_of_producer(named, number) for number in range(3)] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("producers", "consumers", "processes", "expected"),
    [
        (1, 1, 2, [([0], []), ([], [0])]),
        (3, 2, 2, [([0, 1, 2], []), ([], [0, 1])]),
        (3, 3, 1, [([0, 1, 2], [0, 1, 2])]),
        (5, 0, 2, [([0, 2, 4], []), ([1, 3], [])]),
        (1, 3, 4, [([0], []), ([], [0]), ([], [1]), ([], [2])]),
        (3, 1, 4, [([0], []), ([1], []), ([2], []), ([], [0])]),
    ],
)
def test_processes_have_producers_or_consumers(producers, consumers, processes, expected):
    assert list(shares(producers, consumers, processes)) == expected


@pytest.mark.parametrize(
    ("given", "processors", "expected"),
    [
        ({}, 1, 1), ({}, 2, 2), ({}, 16, 2), ({"producers": 10, "consumers": 10}, 16, 8),
        ({"consumers": 0}, 2, 1), ({"processes": 9}, 2, 2),
        ({"producers": 5, "processes": 3}, 2, 3),
    ],
)  # fmt: skip
def test_there_are_as_many_processes_as_make_sense(given, processors, expected):
    assert options(**given).process_count(processors) == expected
