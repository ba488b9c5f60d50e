"""What arguments and policies mean for the machine of a queue, by the rules of three versions."""

import msgspec
import pytest

from leveret.broker.queues.contract.arguments import QueueOptions, read_options
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    DeadLetterStrategy,
    DelayedRetry,
    Options,
)
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules, machine_options


def options(rules, **arguments):
    letters = {int: "I", str: "S", bool: "t"}
    table = {
        f"x-{name.replace('_', '-')}": (letters[type(value)], value)
        for name, value in arguments.items()
    }
    return machine_options(read_options(table), rules)


@pytest.mark.parametrize(
    ("rules", "arguments", "limit", "returns_to_end"),
    [
        (QueueRules.OF_3, {}, NO_LIMIT, True),
        (QueueRules.OF_3, {"delivery_limit": 5}, 5, False),
        (QueueRules.OF_3, {"delivery_limit": "many"}, NO_LIMIT, False),
        (QueueRules.OF_4_0, {}, 20, False),
        (QueueRules.OF_4_0, {"delivery_limit": 30}, 30, False),
        (QueueRules.OF_4_0, {"delivery_limit": -1}, NO_LIMIT, True),
        (QueueRules.OF_4_3, {}, 20, False),
        (QueueRules.OF_4_3, {"delivery_limit": -1}, NO_LIMIT, False),
    ],
)
def test_the_delivery_limit_and_the_order_of_returns(rules, arguments, limit, returns_to_end):
    found = options(rules, **arguments)
    assert (found.delivery_limit, found.returns_to_end) == (limit, returns_to_end)


@pytest.mark.parametrize(
    ("rules", "priorities", "elects_by_priority", "counts_returns"),
    [
        (QueueRules.OF_3, 1, False, True),
        (QueueRules.OF_4_0, 2, True, True),
        (QueueRules.OF_4_3, 32, True, False),
    ],
)
def test_other_rules(rules, priorities, elects_by_priority, counts_returns):
    found = options(rules)
    assert (found.priorities, found.elects_by_priority, found.counts_returns) == (
        priorities, elects_by_priority, counts_returns
    )  # fmt: skip


def test_a_successor_has_the_rules_of_its_version_before_it_has_its_name():
    successor = machine_options(read_options({}), QueueRules.OF_4_3, is_successor=True)
    assert successor == msgspec.structs.replace(options(QueueRules.OF_4_3), is_successor=True)


@pytest.mark.parametrize(
    ("arguments", "retry"),
    [
        ({"type": "all", "min": 5, "max": 9}, (DelayedRetry.ALL, 5, 9)),
        ({"type": "failed", "min": 5}, (DelayedRetry.FAILED, 5, 5)),
        ({"type": "returned", "min": 5, "max": "long"}, (DelayedRetry.RETURNED, 5, 5)),
        ({"type": "returned"}, (DelayedRetry.DISABLED, 0, 0)),
        ({"type": "all", "min": 0}, (DelayedRetry.DISABLED, 0, 0)),
        ({"type": "disabled", "min": 5}, (DelayedRetry.DISABLED, 0, 0)),
        ({"type": 1, "min": 5}, (DelayedRetry.DISABLED, 0, 0)),
    ],
)
def test_queues_of_all_versions_delay_retries_if_they_are_asked_to(arguments, retry):
    named = {f"delayed_retry_{name}": value for name, value in arguments.items()}
    for rules in QueueRules:
        found = options(rules, **named)
        assert (
            found.delayed_retry, found.delayed_retry_min_ms, found.delayed_retry_max_ms
        ) == retry  # fmt: skip


def test_nodes_of_an_earlier_version_neither_multiply_delays_nor_end_them_by_expiry():
    arguments = {"x-delayed-retry-type": ("S", "all"), "x-delayed-retry-min": ("I", 5),
                 "x-delayed-retry-multiplier": ("d", 1.5)}  # fmt: skip
    found = [
        machine_options(read_options(arguments), QueueRules.OF_3, takes_retries=takes)
        for takes in (True, False)
    ]
    assert [(one.delayed_retry_multiplier, one.delayed_expire) for one in found] == [
        (1500, True), (0, False)
    ]  # fmt: skip


def test_delays_without_a_maximum_grow_with_a_multiplier():
    arguments = {"x-delayed-retry-type": ("S", "all"), "x-delayed-retry-min": ("I", 5),
                 "x-delayed-retry-multiplier": ("d", 1.5)}  # fmt: skip
    found = machine_options(read_options(arguments), QueueRules.OF_4_3)
    assert found.delayed_retry_multiplier == 1500
    assert found.delayed_retry_max_ms > 10**11


def test_limits_times_and_dead_letters():
    assert options(
        QueueRules.OF_4_3, max_length=1, max_length_bytes=2, overflow="reject-publish",
        message_ttl=3,
        expires=4, dead_letter_exchange="dlx", dead_letter_strategy="at-least-once",
        single_active_consumer=True, consumer_timeout=5,
    ) == Options(
        max_length=1, max_length_bytes=2, rejects_publishes=True, delivery_limit=20,
        message_ttl_ms=3, expires_ms=4, dead_letters=DeadLetterStrategy.AT_LEAST_ONCE,
        is_single_active=True, elects_by_priority=True, priorities=32, counts_returns=False,
        consumer_timeout_ms=5,
    )  # fmt: skip
    without_rejects = options(
        QueueRules.OF_3, dead_letter_exchange="dlx", dead_letter_strategy="at-least-once"
    )
    assert without_rejects.dead_letters is DeadLetterStrategy.AT_MOST_ONCE
    assert machine_options(QueueOptions(), QueueRules.OF_3) == Options(returns_to_end=True)
