"""Operations on links to other brokers, with their schemas."""

from leveret.broker.shovels.forwarding import DYNAMIC, STATIC
from leveret.broker.shovels.status import (
    BLOCKED,
    FLOW,
    RUNNING,
    STARTING,
    TERMINATED,
    WAITING,
)
from leveret.mgmt.api.description.operation import Operation, Tagged
from leveret.mgmt.api.description.schemas import (
    COUNT,
    NAME,
    TEXT,
    Schema,
    any_of,
    described,
    one_of,
    record,
    ref,
)

_shovels = Tagged("shovels")

_LEFT = any_of(COUNT, one_of("unlimited"))

SCHEMAS: dict[str, Schema] = {
    "Shovel": record(
        {
            "node": NAME, "timestamp": described(TEXT, "When its state changed, in local time."),
            "name": NAME, "type": one_of(DYNAMIC, STATIC),
            "state": one_of(STARTING, WAITING, RUNNING, FLOW, BLOCKED, TERMINATED),
        },
        {
            "vhost": described(TEXT, "Static shovels have none."),
            "reason": described(TEXT, "Why it does not run. It starts again after its pause."),
            "src_uri": described(TEXT, "The URI in use, without user and password."),
            "src_protocol": NAME, "dest_protocol": NAME, "dest_uri": TEXT, "src_queue": NAME,
            "src_exchange": NAME, "src_exchange_key": TEXT, "dest_queue": NAME,
            "dest_exchange": NAME, "dest_exchange_key": TEXT,
            "blocked_status": one_of(RUNNING, FLOW, BLOCKED),
            "forwarded": described(COUNT, "Messages that were published since it runs."),
            "pending": described(COUNT, "Messages that wait for the destination."),
            "remaining": described(_LEFT, "Messages that are to be moved before it ends."),
            "remaining_unacked": described(_LEFT, "Those of them that are to be published."),
        },
    ),
}  # fmt: skip

_SHOVEL = "/shovels/vhost/{vhost}/{name}"

OPERATIONS: tuple[Operation, ...] = (
    _shovels.lists("/shovels", ref("Shovel")),
    _shovels.lists("/shovels/{vhost}", ref("Shovel"), 404),
    _shovels.shows(_SHOVEL, ref("Shovel"), 404),
    _shovels.deletes(_SHOVEL, 404),
    _shovels.deletes(f"{_SHOVEL}/restart", 404),
)
