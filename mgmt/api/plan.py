"""The effect of a declaration, computed without making it."""

from typing import Any

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import field_to_json
from leveret.broker.exchanges import EXCHANGE_TYPES, no_such_type
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import effective_options, merged
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.runtime.pending_in_task import finish
from leveret.broker.sessions.access import check
from leveret.broker.sessions.declaring_queues import require_same_queue
from leveret.broker.sessions.equivalence import require_same, require_same_arguments
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import arguments_of, connect, flag
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.routes import route

CREATE, SAME, CONFLICT = "create", "same", "conflict"
FLAGS = ("durable", "auto_delete")


@route("POST", "/queues/{vhost}/{queue}/plan")
async def plan_queue(call: Call) -> Any:
    """What declaring this queue would do."""
    vhost, name = call.broker.services.vhosts[call.vhost()], call.path("queue")
    body = await call.body()
    arguments = arguments_of(body)
    specification = vhost.kinds.specify(
        vhost.name, name, arguments, durable=flag(body, "durable"),
        auto_delete=flag(body, "auto_delete"),
    )  # fmt: skip
    queue = vhost.queues.get(name)
    outcome, reason = CREATE if queue is None else SAME, None
    try:
        with connect(call, vhost.name) as connection:
            session = connection.session
            await finish(check(session, QUEUE, name, "configure"))
            vhost.kinds.check(specification)
            if queue is not None:
                require_same_queue(session, queue, specification)
    except (ChannelFault, ConnectionFault) as fault:
        outcome, reason = CONFLICT, fault.reply_text
    policies = call.facade.policies
    kind = queue.kind if queue is not None else specification.kind
    policy = policies.of_queue(POLICY, vhost.name, name, kind)
    operator = policies.of_queue(OPERATOR_POLICY, vhost.name, name, kind)
    definition = merged(policy, operator)
    options: dict[str, Any] = {}
    if reason is None:
        options = effective_options(specification.options, definition, kind)._asdict()
    differences: list[dict[str, Any]] = []
    if queue is not None:
        current = {"durable": queue.durable, "auto_delete": queue.auto_delete}
        differences = _differences(body, arguments, current, queue.arguments)
    return {
        "outcome": outcome,
        "reason": reason,
        "differences": differences,
        "policy": policy.name if policy else None,
        "operator_policy": operator.name if operator else None,
        "effective": {key: value for key, value in options.items() if value not in (None, "")},
    }


def _differences(
    body: dict[str, Any], arguments: Table, flags: dict[str, bool], current: Table
) -> list[dict[str, Any]]:
    """The differences between a declaration and the existing object."""
    found = [
        {"argument": name, "received": flag(body, name), "current": value}
        for name, value in flags.items()
        if flag(body, name) != value
    ]
    for name in sorted(arguments.keys() | current.keys()):
        received, there = arguments.get(name), current.get(name)
        wanted = None if received is None else field_to_json(received)
        has = None if there is None else field_to_json(there)
        if wanted != has:
            found.append({"argument": name, "received": wanted, "current": has})
    return found


@route("POST", "/exchanges/{vhost}/{exchange}/plan")
async def plan_exchange(call: Call) -> Any:
    """What declaring this exchange would do."""
    vhost, name = call.broker.services.vhosts[call.vhost()], call.exchange_name()
    body = await call.body()
    arguments = arguments_of(body)
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(["not_string", kind])
    exchange = vhost.exchanges.get(name)
    outcome, reason = CREATE if exchange is None else SAME, None
    differences: list[dict[str, Any]] = []
    if kind not in EXCHANGE_TYPES:
        outcome, reason = CONFLICT, no_such_type(kind).reply_text
    elif exchange is not None:
        flags = {name: getattr(exchange, name) for name in (*FLAGS, "internal")}
        differences = _differences(body, arguments, flags, exchange.arguments)
        if kind != exchange.type_name:
            differences.append(
                {"argument": "type", "received": kind, "current": exchange.type_name}
            )
        try:
            what = resource(EXCHANGE, name, vhost.name)
            require_same("type", kind, exchange.type_name, what)
            for one, value in flags.items():
                require_same(one, flag(body, one), value, what)
            require_same_arguments(("alternate-exchange",), arguments, exchange.arguments, what)
        except ChannelFault as fault:
            outcome, reason = CONFLICT, fault.reply_text
    policy = call.facade.policies.of_exchange(POLICY, vhost.name, name)
    return {
        "outcome": outcome,
        "reason": reason,
        "differences": differences,
        "policy": policy.name if policy else None,
        "effective": {},
    }
