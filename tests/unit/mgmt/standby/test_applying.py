"""A sync is declared in slices, and ends with any change of the replication's state."""

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.config import Config, TcpSettings
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.declarations.values import PutBinding, PutParameter, PutQueue, RequireParameter
from leveret.broker.node.broker import Broker
from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.policies.schema_replication import (
    COMPONENT,
    FOLLOWING,
    PROMOTED,
    STATE,
    is_held_back,
    parse_upstream,
    state_of,
)
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.pending_in_task import in_task
from leveret.mgmt.definitions.exporting import export
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.standby.actions import ActionError, ReplicationActions
from leveret.mgmt.standby.applying import SLICE, Applying, Superseded
from leveret.mgmt.standby.comparing import difference

SETTING = {"endpoints": ["far"], "username": "u", "password": "p"}


@pytest.fixture
async def broker():
    made = Broker(Config(tcp=TcpSettings(listeners=())))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def actions(broker):
    taken = ReplicationActions(NodeFacade(broker), THE_NODE)
    await taken.set_upstream(SETTING)
    return taken


async def go_on():
    """Give way: nothing else runs."""


def queues(count, **fields):
    return [{"vhost": "/", "name": f"q{number}", **fields} for number in range(count)]


async def sync(broker, give_way=go_on, **lists):
    """Have a broker follow definitions that differ from its own in some lists; the outcome."""
    own = await export(NodeFacade(broker), go_on)
    found = await difference(own, {**own, **lists}, parse_upstream(SETTING), go_on)
    state = state_of(broker.services.parameters)
    return await Applying(NodeFacade(broker), state, "http://far:15672", give_way).apply(found)


def names(broker):
    return set(broker.services.vhosts["/"].queues)


async def test_all_slices_are_declared(broker, actions):
    outcome = await sync(broker, queues=queues(3 * SLICE))
    assert (outcome.added, outcome.changed, outcome.deleted) == (3 * SLICE, 0, 0)
    assert len(names(broker)) == 3 * SLICE
    outcome = await sync(broker, queues=queues(SLICE))
    assert outcome.deleted == 2 * SLICE
    assert len(names(broker)) == SLICE


@pytest.mark.parametrize("action", ["promote", "disable", "restart", "enable", "clear"])
async def test_nothing_is_declared_after_a_change_of_the_state(broker, actions, action):
    """S1 of policies/schema_replication.py."""
    left = iter(range(4 * SLICE))

    async def act_amid_the_sync():
        # While slices are declared: the first is there, the last is not.
        if len(names(broker)) == SLICE and next(left) == 0:
            await getattr(actions, action)()

    with pytest.raises(Superseded):
        await sync(broker, act_amid_the_sync, queues=queues(4 * SLICE))
    assert len(names(broker)) == SLICE


async def test_nothing_is_deleted_after_a_promotion(broker, actions):
    await sync(broker, queues=queues(4 * SLICE))

    async def act_amid_the_sync():
        if len(names(broker)) == 3 * SLICE:
            await actions.promote()

    with pytest.raises(Superseded):
        await sync(broker, act_amid_the_sync, queues=[])
    assert len(names(broker)) == 3 * SLICE


async def test_a_declaration_that_waits_for_others_is_checked_when_its_turn_comes(broker, actions):
    services = broker.services
    submit = services.declarations.submit
    state = state_of(services.parameters)
    # Very many declarations take several turns of the event loop, and the others wait.
    many = submit(*(PutQueue("/", f"many{number}") for number in range(1000)))
    assert not many.is_given
    promoted = submit(PutParameter(COMPONENT, NO_VHOST, STATE, state.next(PROMOTED).to_json()))
    late = submit(RequireParameter(COMPONENT, NO_VHOST, STATE, state.to_json()),
                  PutQueue("/", "late"))  # fmt: skip
    await in_task(promoted)
    with pytest.raises(RequirementError):
        await in_task(late)
    assert "late" not in names(broker)


async def test_a_requirement_that_is_met_changes_nothing(broker, actions):
    state = state_of(broker.services.parameters)
    require = RequireParameter(COMPONENT, NO_VHOST, STATE, state.to_json())
    await in_task(broker.services.declarations.submit(require))
    await in_task(broker.services.declarations.submit(require, PutQueue("/", "q")))
    assert names(broker) == {"q"}


async def test_two_actions_at_a_time_are_taken_one_after_the_other(broker, actions):
    number = state_of(broker.services.parameters).number
    await actions.disable()
    await actions.enable()
    await actions.promote()
    assert state_of(broker.services.parameters) == (PROMOTED, number + 3, "")
    for action in ("promote", "enable", "disable", "restart"):
        with pytest.raises(ActionError, match="was promoted already"):
            await getattr(actions, action)()
    with pytest.raises(ActionError):
        await actions.set_upstream(SETTING)


async def test_numbers_of_states_go_on_after_the_setting_was_deleted(broker, actions):
    number = state_of(broker.services.parameters).number
    await actions.clear()
    await actions.set_upstream(SETTING)
    assert state_of(broker.services.parameters) == (FOLLOWING, number + 2, "")


async def test_an_item_that_cannot_be_declared_is_a_problem_of_its_own(broker, actions):
    stream = {"vhost": "/", "name": "s", "arguments": {"x-queue-type": "stream"}}
    binding = {"vhost": "/", "source": "amq.topic", "destination": "s"}
    outcome = await sync(broker, queues=[*queues(3), stream], bindings=[binding])
    assert outcome.added == 3
    assert names(broker) == {"q0", "q1", "q2"}
    problems = {(one["kind"], one["name"]): one["reason"] for one in outcome.problems}
    assert set(problems) == {("queues", "s"), ("bindings", "amq.topic queue s")}
    assert "stream" in problems["queues", "s"]
    assert problems["bindings", "amq.topic queue s"] == "not_found: no queue 's' in vhost '/'"


async def test_a_queue_that_differs_is_made_again_unless_it_is_used(broker, actions):
    await sync(broker, queues=queues(2))
    with_length = queues(2, arguments={"x-max-length": 5})
    outcome = await sync(broker, queues=with_length)
    assert (outcome.added, outcome.changed, outcome.deleted) == (0, 2, 0)
    queue = broker.services.vhosts["/"].queues["q0"]
    assert queue.arguments == {"x-max-length": ("l", 5)}


async def test_bindings_of_clients_whose_arguments_have_other_types_are_deleted(broker, actions):
    await sync(broker, queues=queues(1))
    binding = PutBinding("/", "amq.headers", "q0", "", arguments=encode_table({"n": ("I", 1)}))
    await in_task(broker.services.declarations.submit(binding))
    there = {"vhost": "/", "source": "amq.headers", "destination": "q0", "arguments": {"n": 1}}
    assert (await sync(broker, bindings=[there])).changes == 0
    assert (await sync(broker, bindings=[])).deleted == 1
    assert not broker.services.vhosts["/"].exchanges["amq.headers"].bindings


async def test_what_comes_from_the_upstream_is_held_back(broker, actions):
    parameters = broker.services.parameters
    assert is_held_back(parameters, "/")
    await actions.set_upstream({**SETTING, "vhosts": ["other"]})
    assert not is_held_back(parameters, "/")
    await actions.set_upstream({**SETTING, "kinds": ["queues"]})
    assert not is_held_back(parameters, "/")
    await actions.set_upstream(SETTING)
    await actions.disable()
    assert is_held_back(parameters, "/")
    await actions.promote()
    assert not is_held_back(parameters, "/")
