"""Destinations of STOMP: RabbitMQ's addresses of queues and exchanges, as text. Pure.

    /queue/NAME          a queue, which is declared if it does not exist; also a bare NAME
    /amq/queue/NAME      a queue, which is never declared
    /topic/KEY           the topic exchange; a subscription has a queue of its own
    /exchange/NAME/KEY   an exchange; a subscription has a queue of its own
    /temp-queue/NAME     in reply-to only: a queue of the connection, which is subscribed to
    /reply-queue/NAME    a queue of another connection, as receivers of a message see its reply-to

A slash in a name is written as %2F.
"""

from typing import Final, NamedTuple

from leveret.broker.protocols.stomp.errors import StompError

QUEUE: Final = "queue"
AMQ_QUEUE: Final = "amqqueue"
TOPIC: Final = "topic"
EXCHANGE: Final = "exchange"
TEMP_QUEUE: Final = "temp_queue"
REPLY_QUEUE: Final = "reply_queue"
"""The kinds of destinations, with the names of RabbitMQ's error texts."""
TEMP_QUEUE_PREFIX: Final = "/temp-queue/"
REPLY_QUEUE_PREFIX: Final = "/reply-queue/"
AMQ_TOPIC: Final = "amq.topic"
_PREFIXES: Final = "/temp-queue, /exchange, /topic, /queue, /amq/queue, /reply-queue/"
_PLAIN_MIN, _PLAIN_MAX = 32, 127


class Destination(NamedTuple):
    """A destination. exchange, routing_key: the address to which messages are published.

    For a queue, `routing_key` is the queue's name.
    """

    kind: str
    exchange: str
    routing_key: str


def parse_destination(text: str, topic_exchange: str) -> Destination:
    """Parse a destination. topic_exchange: the exchange of /topic. Raises StompError."""
    parts = text.split("/")
    match parts:
        case [name]:
            return Destination(QUEUE, "", _unescape(name))
        case ["", "exchange", *rest]:
            return _exchange(rest)
        case ["", "topic", *rest]:
            return Destination(TOPIC, topic_exchange, _only(TOPIC, rest))
        case ["", "queue", *rest]:
            return Destination(QUEUE, "", _only(QUEUE, rest))
        case ["", "temp-queue", *rest]:
            return Destination(TEMP_QUEUE, "", _only(TEMP_QUEUE, rest))
        case ["", "amq", "queue", *rest]:
            return Destination(AMQ_QUEUE, "", _only(AMQ_QUEUE, rest))
        case ["", "reply-queue", _, *_]:
            name = text.removeprefix(REPLY_QUEUE_PREFIX)
            return Destination(REPLY_QUEUE, "", _only(REPLY_QUEUE, [name]))
    raise StompError(
        "Unknown destination",
        f"'{text}' is not a valid destination.\nValid destination types are: {_PREFIXES}.\n",
    )


def _exchange(rest: list[str]) -> Destination:
    if not rest or not rest[0] or len(rest) > 2:
        raise _invalid(EXCHANGE, rest)
    key = rest[1] if len(rest) > 1 else ""
    return Destination(EXCHANGE, _unescape(rest[0]), _unescape(key))


def _only(kind: str, rest: list[str]) -> str:
    if len(rest) != 1 or not rest[0]:
        raise _invalid(kind, rest)
    return _unescape(rest[0])


def _invalid(kind: str, rest: list[str]) -> StompError:
    content = "".join(["/" + part for part in rest])
    return StompError("Invalid destination", f"'{content}' is not a valid {kind} destination\n")


def format_destination(exchange: str, routing_key: str) -> str:
    """The destination of a message that was published to this address."""
    if not exchange:
        return "/queue/" + _escape(routing_key)
    if exchange == AMQ_TOPIC:
        return "/topic/" + _escape(routing_key)
    if not routing_key:
        return "/exchange/" + _escape(exchange)
    return f"/exchange/{_escape(exchange)}/{_escape(routing_key)}"


def format_reply_to(reply_to: str) -> str:
    """The reply-to of a message: a queue's name becomes a destination."""
    return reply_to if reply_to.startswith("/") else REPLY_QUEUE_PREFIX + reply_to


def _unescape(text: str) -> str:
    return text.replace("%2F", "/")


def _escape(text: str) -> str:
    if text.isascii() and text.isprintable() and "/" not in text and "%" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if _is_plain(byte) else f"%{byte:02X}" for byte in data])


def _is_plain(byte: int) -> bool:
    return _PLAIN_MIN <= byte <= _PLAIN_MAX and byte not in b"/%"
