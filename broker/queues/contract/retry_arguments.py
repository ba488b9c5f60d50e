"""The x-arguments of delayed retries and delivery limits, checked when a queue is declared.

    x-delayed-retry-type         all, failed, returned or disabled
    x-delayed-retry-min, -max    milliseconds, from 1 to ten years; the maximum is not below the
                                 minimum
    x-delayed-retry-multiplier   a number from 1 to 1000
    x-delivery-limit             an integer; below 0 for none. Classic queues: beside a type

RabbitMQ 4.3 has all of them but the multiplier, for quorum queues, and reads wrong values as none.
Here they are refused, in the form of its other texts: a queue whose retries are silently not
delayed is worse. Only the delivery limit of a quorum queue may have any value, since clients of
older versions declare their queues with it. Pure.
"""

from math import isfinite

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import INTEGER_LETTERS, Field, Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.queues.contract.queue_kind import CLASSIC, QueueKind
from leveret.broker.runtime.names import QUEUE, resource

TYPE, MIN, MAX = "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"
MULTIPLIER, LIMIT = "x-delayed-retry-multiplier", "x-delivery-limit"
DELAYED_RETRY_TYPES = ("all", "failed", "returned", "disabled")
MULTIPLIER_MAX = 1000
FLOAT_LETTERS = "fd"


def check_retry_arguments(arguments: Table, kind: QueueKind, queue: str, vhost: str) -> None:
    """Raise 406 for a wrong value of an argument that queues of this kind take."""
    taken = kind.taken_arguments(arguments)
    problems = {
        name: problem(arguments[name])
        for name, problem in _PROBLEMS.items()
        if name in arguments and name in taken
    }
    if kind.name == CLASSIC and LIMIT in arguments and LIMIT in taken:
        problems[LIMIT] = _integer_problem(arguments[LIMIT])
    if MIN in problems and MAX in problems and not (problems[MIN] or problems[MAX]):
        least, most = arguments[MIN][1], arguments[MAX][1]
        if most < least:
            problems[MAX] = f"{{less_than_delayed_retry_min,{most},{least}}}"
    for name, problem in problems.items():
        if problem:
            raise precondition_failed(
                f"invalid arg '{name}' for {resource(QUEUE, queue, vhost)}: {problem}"
            )


def is_multiplier(value: object) -> bool:
    """Whether a value, as of a policy, multiplies delays."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and 1 <= value <= MULTIPLIER_MAX


def read_multiplier(field: Field | None) -> float | None:
    """The multiplier in an argument; None if there is none, or a wrong one."""
    if field is None or field[0] not in (*INTEGER_LETTERS, *FLOAT_LETTERS):
        return None
    return float(field[1]) if is_multiplier(field[1]) else None


def _integer_problem(field: Field) -> str:
    """What is wrong with a number, as the Erlang term that RabbitMQ would print; empty: nothing."""
    if field[0] in INTEGER_LETTERS:
        return ""
    return f'"expected integer, got {FIELD_TYPE_NAMES[field[0]]}"'


def _time_problem(field: Field) -> str:
    problem = _integer_problem(field)
    if problem:
        return problem
    time_ms = field[1]
    if time_ms < 0:
        return f"{{value_negative,{time_ms}}}"
    if time_ms == 0:
        return "{value_zero,0}"
    return f"{{value_too_large,{time_ms}}}" if time_ms > TTL_MS_MAX else ""


def _type_problem(field: Field) -> str:
    if field[0] != "S":
        return f"{{unacceptable_type,{FIELD_TYPE_NAMES[field[0]]}}}"
    return "" if field[1] in DELAYED_RETRY_TYPES else "invalid_delayed_retry_type"


def _multiplier_problem(field: Field) -> str:
    if field[0] not in (*INTEGER_LETTERS, *FLOAT_LETTERS):
        return f"{{unacceptable_type,{FIELD_TYPE_NAMES[field[0]]}}}"
    if is_multiplier(field[1]):
        return ""
    problem = "value_too_large" if field[1] > MULTIPLIER_MAX else "value_less_than_one"
    return f"{{{problem},{field[1]}}}"


_PROBLEMS = {
    TYPE: _type_problem, MIN: _time_problem, MAX: _time_problem, MULTIPLIER: _multiplier_problem,
}  # fmt: skip
