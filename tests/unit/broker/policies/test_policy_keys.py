"""What policies may ask of federation."""

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
    check_definition("p", definition, is_operator=False)


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
        check_definition("p", definition, is_operator=False)
    assert str(refused.value) == text
