"""Operations on vhosts, exchanges, queues, bindings, messages, connections and channels."""

from leveret.mgmt.api.description import bodies
from leveret.mgmt.api.description.operation import (
    QUEUE_WINDOWS,
    WHOLE_OR_NONE,
    Operation,
    Parameter,
    TaggedOperations,
    choice,
    window,
)
from leveret.mgmt.api.description.schemas import (
    COUNT,
    OBJECT,
    TEXT,
    described,
    list_of,
    record,
    ref,
)

_vhosts = TaggedOperations("vhosts")
_exchanges = TaggedOperations("exchanges")
_queues = TaggedOperations("queues")
_bindings = TaggedOperations("bindings")
_messages = TaggedOperations("messages")
_clients = TaggedOperations("clients")
_streams = TaggedOperations("streams")

RATES = window("msg_rates")
BYTES = window("data_rates")
REASON = Parameter("X-Reason", described(TEXT, "The reason that the client gets."), "header")
_PLACE = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
_FILTERS = (
    Parameter("header", TEXT), Parameter("body", TEXT), Parameter("routing_key", TEXT),
)  # fmt: skip

VHOSTS = (
    _vhosts.lists("/vhosts", ref("Vhost"), parameters=QUEUE_WINDOWS),
    _vhosts.shows("/vhosts/{vhost}", ref("Vhost"), 400, 404, parameters=QUEUE_WINDOWS),
    _vhosts.puts("/vhosts/{vhost}", bodies.VHOST),
    _vhosts.deletes("/vhosts/{vhost}", 404),
    _vhosts.posts("/vhosts/{vhost}/start/{node}", None, None, 400),
)
EXCHANGES = (
    _exchanges.lists("/exchanges", ref("Exchange"), parameters=RATES),
    _exchanges.lists("/exchanges/{vhost}", ref("Exchange"), 404, parameters=RATES),
    _exchanges.shows(
        "/exchanges/{vhost}/{exchange}", ref("SingleExchange"), 400, 404, parameters=RATES
    ),
    _exchanges.puts("/exchanges/{vhost}/{exchange}", bodies.EXCHANGE, 404),
    _exchanges.deletes(
        "/exchanges/{vhost}/{exchange}", 400, 404, parameters=[choice("if-unused", "true")]
    ),
    _exchanges.posts(
        "/exchanges/{vhost}/{exchange}/plan", bodies.EXCHANGE, ref("ExchangePlan"), 404
    ),
    _exchanges.lists("/exchanges/{vhost}/{exchange}/bindings/source", ref("Binding"), 404),
    _exchanges.lists("/exchanges/{vhost}/{exchange}/bindings/destination", ref("Binding"), 404),
)
QUEUES = (
    _queues.lists("/queues", ref("Queue"), parameters=QUEUE_WINDOWS),
    _queues.lists("/queues/detailed", ref("Queue"), parameters=QUEUE_WINDOWS),
    _queues.lists("/queues/{vhost}", ref("Queue"), 404, parameters=QUEUE_WINDOWS),
    _queues.shows(
        "/queues/{vhost}/{queue}", ref("SingleQueue"), 400, 404, parameters=QUEUE_WINDOWS
    ),
    _queues.puts("/queues/{vhost}/{queue}", bodies.QUEUE, 404),
    _queues.deletes(
        "/queues/{vhost}/{queue}", 400, 404,
        parameters=[choice("if-empty", "true"), choice("if-unused", "true")],
    ),
    _queues.posts("/queues/{vhost}/{queue}/plan", bodies.PLANNED_QUEUE, ref("QueuePlan"), 404),
    _queues.posts("/queues/{vhost}/{queue}/actions", bodies.QUEUE_ACTION, None, 404, 409),
    _queues.posts(
        "/queues/quorum/{vhost}/{queue}/replicas/add", bodies.QUORUM_MEMBER, None, 404, 503
    ),
    Operation(
        "DELETE", "/queues/quorum/{vhost}/{queue}/replicas/delete", "queues", None, (404, 503),
        bodies.MEMBERS_NODE,
    ),
    _queues.posts(
        "/queues/stream/{vhost}/{queue}/replicas/add", bodies.MEMBERS_NODE, None, 404, 503
    ),
    Operation(
        "DELETE", "/queues/stream/{vhost}/{queue}/replicas/delete", "queues", None,
        (400, 404, 503), bodies.MEMBERS_NODE,
    ),
    _queues.posts("/queues/quorum/replicas/on/{node}/grow", bodies.GROWING, None, 404, 503),
    _queues.deletes("/queues/quorum/replicas/on/{node}/shrink", 404, 503),
    _queues.shows("/queues/{vhost}/{queue}/peek/{position}", OBJECT, 400, 404, 500),
    _queues.posts("/queues/{vhost}/{queue}/reclaim", None, None, 400, 404),
    _queues.lists("/queues/{vhost}/{queue}/bindings", ref("Binding"), 404),
    _queues.deletes("/queues/{vhost}/{queue}/contents", 400, 404),
)  # fmt: skip
BINDINGS = (
    _bindings.lists("/bindings", ref("Binding")),
    _bindings.lists("/bindings/{vhost}", ref("Binding"), 404),
    _bindings.lists(_PLACE, ref("Binding"), 404),
    Operation("POST", _PLACE, "bindings", None, (400, 404), bodies.BINDING, makes=True),
    _bindings.shows(f"{_PLACE}/{{props}}", ref("Binding"), 404),
    _bindings.deletes(f"{_PLACE}/{{props}}", 400, 404),
)
MESSAGES = (
    _messages.posts(
        "/exchanges/{vhost}/{exchange}/publish", bodies.PUBLISHED,
        record({"routed": {"type": "boolean"}}), 404,
    ),
    _messages.posts(
        "/queues/{vhost}/{queue}/get", bodies.GET, list_of(ref("GotMessage")), 404
    ),
    _messages.shows(
        "/queues/{vhost}/{queue}/messages", ref("HeldMessages"), 400, 404,
        parameters=[Parameter("offset", WHOLE_OR_NONE), Parameter("position", WHOLE_OR_NONE),
                    Parameter("count", WHOLE_OR_NONE),
                    Parameter("truncate", WHOLE_OR_NONE),
                    Parameter("scanned_max", WHOLE_OR_NONE), *_FILTERS],
    ),
    _messages.posts("/queues/{vhost}/{queue}/messages/retry", bodies.RETRY, ref("Done"), 404),
    _messages.posts(
        "/queues/{vhost}/{queue}/messages/targets", bodies.CHOSEN, ref("Targets"), 404
    ),
    _messages.posts(
        "/queues/{vhost}/{queue}/messages/count", bodies.CHOSEN, record({"matching": COUNT}), 404
    ),
    _messages.posts("/queues/{vhost}/{queue}/messages/move", bodies.MOVE, ref("Done"), 404),
    _messages.posts("/queues/{vhost}/{queue}/messages/delete", bodies.CHOSEN, ref("Done"), 404),
)  # fmt: skip
CLIENTS = (
    _clients.lists("/connections", ref("Connection"), parameters=BYTES),
    _clients.lists("/vhosts/{vhost}/connections", ref("Connection"), 404, parameters=BYTES),
    _clients.lists("/connections/username/{user}", ref("Connection"), parameters=BYTES),
    _clients.deletes("/connections/username/{user}", parameters=[REASON]),
    _clients.shows("/connections/{connection}", ref("Connection"), 400, 404, parameters=BYTES),
    _clients.deletes("/connections/{connection}", 404, parameters=[REASON]),
    _clients.lists("/connections/{connection}/channels", ref("Channel"), 404, parameters=RATES),
    _clients.lists("/connections/{connection}/sessions", ref("Session"), 404),
    _clients.lists("/channels", ref("Channel"), parameters=RATES),
    _clients.lists("/vhosts/{vhost}/channels", ref("Channel"), 404, parameters=RATES),
    _clients.shows("/channels/{channel}", ref("SingleChannel"), 400, 404, parameters=RATES),
    _clients.lists("/consumers", ref("Consumer")),
    _clients.lists("/consumers/{vhost}", ref("Consumer"), 404),
)

_STREAM = "/stream/{vhost}/{queue}"
_OF_CONNECTION = "/stream/connections/{vhost}/{name}"
STREAMS = (
    _streams.lists("/stream/connections", ref("StreamConnection"), parameters=BYTES),
    _streams.lists("/stream/connections/{vhost}", ref("StreamConnection"), 404, parameters=BYTES),
    _streams.shows(_OF_CONNECTION, ref("StreamConnection"), 400, 404, parameters=BYTES),
    _streams.deletes(_OF_CONNECTION, 404, parameters=[REASON]),
    _streams.lists(f"{_OF_CONNECTION}/publishers", ref("StreamPublisher"), 404),
    _streams.lists(f"{_OF_CONNECTION}/consumers", ref("StreamConsumer"), 404),
    _streams.lists("/stream/publishers", ref("StreamPublisher")),
    _streams.lists("/stream/publishers/{vhost}", ref("StreamPublisher"), 404),
    _streams.lists("/stream/publishers/{vhost}/{queue}", ref("StreamPublisher"), 404),
    _streams.lists("/stream/consumers", ref("StreamConsumer")),
    _streams.lists("/stream/consumers/{vhost}", ref("StreamConsumer"), 404),
    _streams.lists("/stream/consumers/{vhost}/{queue}", ref("StreamConsumer"), 404),
    _streams.shows(
        f"{_STREAM}/messages",
        ref("StreamMessages"),
        400,
        404,
        503,
        parameters=[
            Parameter(
                "offset", described(TEXT, "A position: an offset, a time, `1h`, `first` ...")
            ),
            Parameter("count", WHOLE_OR_NONE),
            Parameter("truncate", WHOLE_OR_NONE),
        ],
    ),
    _streams.shows(
        f"{_STREAM}/tracking",
        ref("StreamTracking"),
        400,
        404,
        503,
        parameters=[choice("type", "offset", "writer")],
    ),
    _streams.posts(f"{_STREAM}/offsets", bodies.STREAM_OFFSET, ref("StoredOffset"), 404, 503),
    _streams.posts(f"{_STREAM}/copy", bodies.STREAM_COPY, ref("CopiedPart"), 404, 409, 503),
    _streams.lists("/stream/super-streams", ref("SuperStream")),
    _streams.lists("/stream/super-streams/{vhost}", ref("SuperStream"), 404),
    _streams.puts("/stream/super-streams/{vhost}/{name}", bodies.SUPER_STREAM, 404),
    _streams.deletes("/stream/super-streams/{vhost}/{name}", 400, 404),
)

OPERATIONS = (*VHOSTS, *EXCHANGES, *QUEUES, *BINDINGS, *MESSAGES, *CLIENTS, *STREAMS)
