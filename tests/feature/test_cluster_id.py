"""The id of a cluster: a global parameter that a node creates at its first start."""

import re

from leveret.broker.declarations.values import DeleteParameter
from leveret.broker.policies.parameters import GLOBAL, INTERNAL_CLUSTER_ID, NO_VHOST
from leveret.broker.runtime.pending_in_task import in_task
from tests.stored_broker import StoredBroker

FORM = re.compile("rabbitmq-cluster-id-[A-Za-z0-9_-]{22}")


async def id_of(directory, *, is_deleted_then=False):
    """The id at a start."""
    async with StoredBroker(directory) as node:
        broker = node.broker
        if is_deleted_then:
            delete = DeleteParameter(GLOBAL, NO_VHOST, INTERNAL_CLUSTER_ID)
            await in_task(broker.services.declarations.submit(delete))
            assert broker.cluster_id == ""
        return broker.cluster_id


async def test_it_has_rabbitmqs_form_and_outlives_a_restart(tmp_path):
    made = await id_of(tmp_path)
    assert FORM.fullmatch(made)
    assert await id_of(tmp_path) == made


async def test_every_cluster_has_another_one(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    assert await id_of(tmp_path / "a") != await id_of(tmp_path / "b")


async def test_one_that_was_deleted_is_replaced_at_the_next_start(tmp_path):
    await id_of(tmp_path, is_deleted_then=True)
    made = await id_of(tmp_path)
    assert FORM.fullmatch(made)
    assert await id_of(tmp_path) == made
