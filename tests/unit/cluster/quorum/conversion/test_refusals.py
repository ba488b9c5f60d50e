"""Which queues are not converted: all reasons come together, and say what to do."""

import pytest

from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.cluster.quorum.conversion.refusals import DECLARE_ANOTHER, refusals
from tests.unit.broker.queues.fakes import FakeVhost, declared
from tests.unit.cluster.quorum.group_of_one import Use


def to_quorum(policy=None, later=None, **arguments):
    queue = declared(FakeVhost(), **arguments)
    queue.durable = True
    return refusals(queue, QUORUM_QUEUE, policy or {}, later or {})


def test_what_a_queue_was_declared_with_cannot_be_changed():
    assert to_quorum() == []
    assert to_quorum(x_max_priority=5, x_queue_mode="lazy") == [
        "quorum queues have no argument x-max-priority",
        "quorum queues have no argument x-queue-mode",
        DECLARE_ANOTHER,
    ]
    assert "it is auto-delete" in to_quorum(auto_delete=True)


def test_a_queue_without_consumers_could_expire_while_it_is_held():
    (reason,) = to_quorum(x_expires=5000)
    assert "it may expire meanwhile: its x-expires must be at least 10000 ms" in reason
    assert to_quorum(x_expires=60_000) == []


def test_mirrors_are_no_reason():
    assert to_quorum({"ha-mode": "all", "ha-sync-mode": "automatic"}) == []


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"queue-mode": "lazy"}, "a policy with the key queue-mode does not apply to quorum"),
        ({"max-length": 5}, "the policy that sets max-length does not apply to quorum queues"),
        ({"ha-mode": "all", "max-length": 5}, "the policy that sets max-length does not apply"),
    ],
)
def test_a_policy_that_would_no_longer_apply_is_one(policy, reason):
    (found,) = to_quorum(policy)
    assert reason in found
    assert to_quorum({"max-length": 5}, later={"max-length": 5}) == []


def test_a_classic_queue_has_no_delivery_limit():
    queue = Use().queue
    assert refusals(queue, CLASSIC_QUEUE, {}, {}) == []
    (reason,) = refusals(queue, CLASSIC_QUEUE, {"delivery-limit": 5}, {})
    assert "a policy with the key delivery-limit does not apply to classic queues" in reason
    assert refusals(queue, QUORUM_QUEUE, {}, {}) == ["it is a quorum queue"]
