"""What a node that is stopped asks for, with replicas that are no more than named."""

import asyncio
from types import SimpleNamespace

from leveret.broker.queues.contract.placement import Placement
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.leaving import Leaving


def a_replica(name, identity):
    queue = SimpleNamespace(name=name, placement=Placement("a@host", identity))
    return SimpleNamespace(
        identity=identity, queue=queue, member=Member("a@host", 1, identity), leading=None,
        record=None, vhost=SimpleNamespace(name="/"),
    )  # fmt: skip


def test_a_queue_may_end_with_the_death_of_its_last_member():
    """One that is not durable is deleted, with its replica, while the change is asked for."""
    replicas = {identity: a_replica(f"q{identity}", identity) for identity in (1, 2, 3)}
    asked = []

    def submit(declaration, answer):
        asked.append(declaration.name)
        del replicas[declaration.identity]
        answer.give(None)

    asyncio.run(Leaving(replicas.values, submit, frozenset).leave())
    assert asked == ["q1", "q2", "q3"]
    assert not replicas
