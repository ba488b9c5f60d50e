"""Which upstreams a policy asks for, and with which options."""

import pytest

from leveret.broker.moving.federation.upstreams import is_federated, upstreams_of
from leveret.broker.policies.parameters import (
    FEDERATION_UPSTREAM,
    FEDERATION_UPSTREAM_SET,
    Parameters,
)


@pytest.fixture
def parameters():
    parameters = Parameters()
    for name, changes in {
        "rome": {}, "paris": {"max-hops": 3, "exchange": "there"}, "perth": {"prefetch-count": 5}
    }.items():  # fmt: skip
        value = {"uri": f"amqp://{name}"} | changes
        parameters.put(FEDERATION_UPSTREAM, "/", name, value)
    parameters.put(FEDERATION_UPSTREAM, "other", "away", {"uri": "amqp://away"})
    return parameters


def names(definition, parameters):
    found, problems = upstreams_of(definition, "/", parameters)
    assert problems == []
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"federation-upstream": "paris"}, ["paris"]),
        ({"federation-upstream": "oslo"}, []),
        ({"federation-upstream": "away"}, []),
        ({"federation-upstream-set": "all"}, ["rome", "paris", "perth"]),
        ({"federation-upstream-set": "none"}, []),
        ({"federation-upstream-pattern": "^p"}, ["paris", "perth"]),
        ({"federation-upstream-pattern": "o"}, ["rome"]),
        ({"federation-upstream-pattern": "x"}, []),
    ],
)
def test_a_policy_names_upstreams(parameters, definition, expected):
    assert is_federated(definition)
    assert names(definition, parameters) == expected


def test_a_policy_of_other_things_federates_nothing():
    assert not is_federated({"max-length": 1})


def test_members_of_a_set_replace_options(parameters):
    members = [{"upstream": "paris", "max-hops": 5}, {"upstream": "oslo"}, {"upstream": "rome"}]
    parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", members)
    found, _ = upstreams_of({"federation-upstream-set": "mine"}, "/", parameters)
    assert [(one.name, one.max_hops, one.exchange) for one in found] == [
        ("paris", 5, "there"),
        ("rome", 1, None),
    ]


def test_a_set_may_be_empty(parameters):
    parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", {})
    assert names({"federation-upstream-set": "mine"}, parameters) == []


def test_an_upstream_that_makes_no_sense_is_left_out_and_told_without_its_password(parameters):
    parameters.put(FEDERATION_UPSTREAM, "/", "rome", {"uri": "http://u:secret@rome"})
    found, problems = upstreams_of({"federation-upstream-set": "all"}, "/", parameters)
    assert [one.name for one in found] == ["paris", "perth"]
    (problem,) = problems
    assert "rome" in problem
    assert "secret" not in problem


def test_a_set_that_makes_no_sense_is_told(parameters):
    parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", [{"max-hops": 1}])
    found, problems = upstreams_of({"federation-upstream-set": "mine"}, "/", parameters)
    assert (found, len(problems)) == ([], 1)
