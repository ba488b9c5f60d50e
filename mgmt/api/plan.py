"""The effect of a declaration, computed without making it."""

from collections.abc import Awaitable, Callable
from typing import Any

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import field_to_json
from leveret.broker.policies.parameters import POLICY
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api import exchanges, queues
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import connect, require_short_name
from leveret.mgmt.api.routes import route
from leveret.mgmt.node_facade.facts import DeclaredQueue, ExchangeFacts

CREATE, SAME, CONFLICT = "create", "same", "conflict"
QUEUE_FLAGS = ("durable", "auto_delete")
EXCHANGE_FLAGS = (*QUEUE_FLAGS, "internal")


@route("POST", "/queues/{vhost}/{queue}/plan")
async def plan_queue(call: Call) -> Any:
    """What declaring this queue would do."""
    vhost, name = call.vhost(), call.path("queue")
    wanted = queues.properties_of(await call.body())
    require_short_name(QUEUE, name)
    there = call.facade.declared_queue(vhost, name)
    policies = call.facade.queue_policies(vhost, name, wanted.arguments)
    reason = await _refusal(call, vhost, lambda connection: connection.check_queue(name, wanted))
    effective = policies.options if reason is None else {}
    return {
        **_outcome(reason, is_new=there is None),
        "differences": [] if there is None else _differences(wanted, there, QUEUE_FLAGS),
        "policy": policies.policy,
        "operator_policy": policies.operator_policy,
        "effective": {key: value for key, value in effective.items() if value not in (None, "")},
    }


@route("POST", "/exchanges/{vhost}/{exchange}/plan")
async def plan_exchange(call: Call) -> Any:
    """What declaring this exchange would do."""
    vhost, name = call.vhost(), call.exchange_name()
    wanted = exchanges.properties_of(await call.body())
    require_short_name(EXCHANGE, name)
    there = call.facade.exchange(vhost, name)
    differences: list[dict[str, Any]] = []
    if there is not None:
        differences = _differences(wanted, there, EXCHANGE_FLAGS)
        if wanted.type_name != there.type:
            differences.append(_difference("type", wanted.type_name, there.type))
    reason = await _refusal(call, vhost, lambda connection: connection.check_exchange(name, wanted))
    policy = call.facade.policies.of_exchange(POLICY, vhost, name)
    return {
        **_outcome(reason, is_new=there is None),
        "differences": differences,
        "policy": policy.name if policy else None,
        "effective": {},
    }


async def _refusal(
    call: Call, vhost: str, check: Callable[[DirectConnection], Awaitable[None]]
) -> str | None:
    """RabbitMQ's text if the user's declaration would be refused."""
    try:
        with connect(call, vhost) as connection:
            await check(connection)
    except (ChannelFault, ConnectionFault) as fault:
        return fault.reply_text
    return None


def _outcome(reason: str | None, *, is_new: bool) -> dict[str, Any]:
    if reason is not None:
        return {"outcome": CONFLICT, "reason": reason}
    return {"outcome": CREATE if is_new else SAME, "reason": None}


def _differences(
    wanted: QueueProperties | ExchangeProperties,
    there: DeclaredQueue | ExchangeFacts,
    flags: tuple[str, ...],
) -> list[dict[str, Any]]:
    """The differences between a declaration and the existing object."""
    found = [
        _difference(name, getattr(wanted, name), getattr(there, name))
        for name in flags
        if getattr(wanted, name) != getattr(there, name)
    ]
    for name in sorted(wanted.arguments.keys() | there.arguments.keys()):
        received, current = (
            None if field is None else field_to_json(field)
            for field in (wanted.arguments.get(name), there.arguments.get(name))
        )
        if received != current:
            found.append(_difference(name, received, current))
    return found


def _difference(argument: str, received: Any, current: Any) -> dict[str, Any]:
    return {"argument": argument, "received": received, "current": current}
