"""Operations on links to other brokers, with their schemas."""

from leveret.broker.moving.federation import status as links
from leveret.broker.moving.shovels.forwarding import DYNAMIC, STATIC
from leveret.broker.moving.shovels.status import (
    BLOCKED,
    FLOW,
    RUNNING,
    STARTING,
    TERMINATED,
    WAITING,
)
from leveret.mgmt.api.description.operation import Operation, TaggedOperations, window
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

_shovels, _federation = TaggedOperations("shovels"), TaggedOperations("federation")

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
    "FederationLink": record(
        {
            "node": NAME, "type": one_of(links.EXCHANGE, links.QUEUE), "vhost": NAME,
            "upstream": NAME, "id": described(TEXT, "The same while what it connects is."),
            "status": one_of(links.STARTING, links.RUNNING, links.ERROR),
            "uri": described(TEXT, "The URI in use, without user and password."),
            "timestamp": described(TEXT, "When its status changed, in local time."),
        },
        {
            "exchange": NAME, "upstream_exchange": NAME, "queue": NAME, "upstream_queue": NAME,
            "consumer_tag": described(TEXT, "Of the consumer of the upstream's queue."),
            "error": described(TEXT, "Why it does not run. It starts again after its pause."),
            "local_connection": described(TEXT, "Its connection to the vhost of its node."),
            "local_channel": ref("Channel"),
        },
    ),
}  # fmt: skip

_SHOVEL = "/shovels/vhost/{vhost}/{name}"
_LINKS = "/federation-links"
_RATES = window("msg_rates")

OPERATIONS: tuple[Operation, ...] = (
    _shovels.lists("/shovels", ref("Shovel")),
    _shovels.lists("/shovels/{vhost}", ref("Shovel"), 404),
    _shovels.shows(_SHOVEL, ref("Shovel"), 404),
    _shovels.deletes(_SHOVEL, 404),
    _shovels.deletes(f"{_SHOVEL}/restart", 404),
    _federation.lists(_LINKS, ref("FederationLink"), parameters=_RATES),
    _federation.lists(f"{_LINKS}/{{vhost}}", ref("FederationLink"), 404, parameters=_RATES),
    _federation.lists(f"{_LINKS}/state/down", ref("FederationLink"), parameters=_RATES),
    _federation.lists(
        f"{_LINKS}/{{vhost}}/state/down", ref("FederationLink"), 404, parameters=_RATES
    ),
    _federation.deletes(f"{_LINKS}/vhost/{{vhost}}/{{id}}/{{node}}/restart", 404),
)
