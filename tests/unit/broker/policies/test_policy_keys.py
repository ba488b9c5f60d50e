"""What policies may ask of federation, and of the retries of quorum queues."""

import pytest

from leveret.broker.policies.policy_keys import PolicyError, check_definition


@pytest.mark.parametrize(
    "definition",
    [
        {"federation-upstream": "up"},
        {"federation-upstream-set": "all"},
        {"federation-upstream-pattern": "^up", "max-length": 5},
    ],
)
def test_a_policy_federates(definition):
    check_definition("p", definition, is_operator=False, may_lift_limits=False)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (
            {"federation-upstream": "up", "federation-upstream-set": "all"},
            "cannot specify federation-upstream, federation-upstream-set or "
            "federation-upstream-pattern together",
        ),
        ({"federation-upstream": 1}, "1 is not a valid federation upstream name"),
        ({"federation-upstream-set": 1}, "1 is not a valid federation upstream set name"),
        ({"federation-upstream-pattern": 1}, "1 is not a valid federation upstream pattern name"),
        (
            {"federation-upstream-pattern": "("},
            'could not compile pattern ( to a regular expression. Error: {"missing )",1}',
        ),
    ],
)
def test_a_policy_that_federates_in_two_ways_or_by_an_invalid_name_is_refused(definition, text):
    with pytest.raises(PolicyError) as refused:
        check_definition("p", definition, is_operator=False, may_lift_limits=False)
    assert str(refused.value) == text


@pytest.mark.parametrize("is_operator", [False, True])
def test_a_policy_delays_retries(is_operator):
    retries = {"delayed-retry-type": "failed", "delayed-retry-min": 1, "delayed-retry-max": 1}
    check_definition("p", retries, is_operator, may_lift_limits=False)


@pytest.mark.parametrize("is_operator", [False, True])
def test_a_policy_refuses_duplicates_and_has_messages_expire_on_time(is_operator):
    definition = {"x-message-deduplication": True, "x-cache-size": 9, "x-cache-ttl": 9,
                  "expire-on-time": True}  # fmt: skip
    check_definition("p", definition, is_operator, may_lift_limits=False)


def test_a_delivery_limit_below_0_is_none_where_there_is_one_by_default():
    check_definition("p", {"delivery-limit": -1}, is_operator=False, may_lift_limits=True)
    with pytest.raises(PolicyError, match="^-1 is not a valid delivery limit$"):
        check_definition("p", {"delivery-limit": -1}, is_operator=False, may_lift_limits=False)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (
            {"delayed-retry-type": "some"},
            '<<"some">> is not a valid delayed retry type. Must be one of: all, failed, returned, '
            "disabled",
        ),
        (
            {"delayed-retry-min": 0},
            "0 is not a valid delayed retry minimum delay. Must be a positive integer",
        ),
        (
            {"delayed-retry-max": "1"},
            '<<"1">> is not a valid delayed retry maximum delay. Must be a positive integer',
        ),
        (
            {"delayed-retry-type": "all"},
            "delayed-retry-min is required when delayed-retry-type is all",
        ),
        (
            {"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 4},
            "delayed-retry-max (4) must not be smaller than delayed-retry-min (5)",
        ),
        ({"delivery-limit": "many"}, '<<"many">> is not a valid delivery limit'),
        (
            {"expire-on-time": 1},
            "1 is not a valid choice whether messages expire on time",
        ),
    ],
)
def test_a_policy_with_invalid_rules_of_retries_is_refused(definition, text):
    with pytest.raises(PolicyError) as refused:
        check_definition("p", definition, is_operator=False, may_lift_limits=False)
    assert str(refused.value) == text
