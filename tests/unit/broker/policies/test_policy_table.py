"""How policies, operator policies and arguments become the options of a quorum queue."""

import pytest

from leveret.broker.declarations.values import Policy
from leveret.broker.policies.policy_table import effective_options, merged
from leveret.broker.queues.contract.arguments import NO_LIMIT, QueueOptions
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE


def policy(definition):
    return Policy("/", "p", "", "queues", definition, 0)


def options(declared, definition):
    return effective_options(declared, definition, QUORUM_QUEUE)


def test_an_operator_policy_bounds_retries():
    own = {"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 9}
    bounds = {"delayed-retry-type": "failed", "delayed-retry-min": 6, "delayed-retry-max": 8}
    assert merged(policy(own), policy(bounds)) == bounds
    assert merged(policy(bounds), policy(own)) == {
        "delayed-retry-type": "all", "delayed-retry-min": 6, "delayed-retry-max": 8,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "operator", "in_force"), [(5, 6, 5), (-1, 6, 6), (5, -1, 5), (-1, -2, -1)]
)
def test_a_negative_delivery_limit_is_none(own, operator, in_force):
    both = merged(policy({"delivery-limit": own}), policy({"delivery-limit": operator}))
    assert both == {"delivery-limit": in_force}


@pytest.mark.parametrize(
    ("declared", "of_policy", "in_force"),
    [(None, -1, NO_LIMIT), (5, -1, 5), (5, 4, 4), (NO_LIMIT, 4, 4)],
)
def test_the_lower_delivery_limit_is_in_force(declared, of_policy, in_force):
    found = options(QueueOptions(delivery_limit=declared), {"delivery-limit": of_policy})
    assert found.delivery_limit == in_force


def test_the_shorter_times_and_the_policys_type_are_in_force():
    declared = QueueOptions(
        consumer_timeout_ms=7, delayed_retry_type="all", delayed_retry_min_ms=5,
        delayed_retry_max_ms=6,
    )  # fmt: skip
    definition = {
        "consumer-timeout": 8, "delayed-retry-type": "failed", "delayed-retry-min": 4,
        "delayed-retry-max": 9,
    }  # fmt: skip
    assert options(declared, definition) == declared._replace(
        delayed_retry_type="failed", delayed_retry_min_ms=4
    )
