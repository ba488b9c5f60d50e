"""A node has another one end the owner of an exclusive queue whose client is gone."""

import asyncio

import pytest

from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.registry.exclusive_owners import ExclusiveOwners
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.services.absent_owners import AbsentOwners
from leveret.cluster.rpc.absent_owners import AbsentOwnersElsewhere
from tests.linked_rpc import linked

NAME = "10.0.0.7:4711 -> 10.0.0.1:5672"


class Owner:
    """A connection of ann, whose client is gone or not."""

    name = NAME

    def __init__(self, is_gone):
        self.is_gone = is_gone

    def end_if_gone(self, user, answer):
        answer.give(self.is_gone and user == "ann")


async def ended(owner, user="ann", node="b"):
    """Whether node b says that the owner of a queue there has ended."""
    a, b, *_ = linked()
    owners = ExclusiveOwners()
    if owner is not None:
        owners.add(owner)
    asking = AbsentOwners()
    AbsentOwnersElsewhere(a, asking, ExclusiveOwners())
    AbsentOwnersElsewhere(b, AbsentOwners(), owners)
    return await given_in_task(asking.end_if_gone(RemoteOwner(NAME, node), user))


@pytest.mark.parametrize(
    ("owner", "user", "expected"),
    [
        (Owner(True), "ann", True), (Owner(False), "ann", False), (Owner(True), "bob", False),
        (None, "ann", False),
    ],
    ids=["gone", "there", "of another user", "unknown"],
)  # fmt: skip
def test_the_other_node_ends_it_if_its_client_is_gone(owner, user, expected):
    assert asyncio.run(ended(owner, user)) is expected


def test_a_queue_of_a_node_that_does_not_answer_stays_locked():
    assert asyncio.run(ended(Owner(True), node="c")) is False
