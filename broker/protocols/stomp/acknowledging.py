"""ACK and NACK of one session. Compiled."""

from typing import Final

from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.message_frames import SEPARATOR
from leveret.broker.protocols.stomp.message_headers import truth_of
from leveret.broker.protocols.stomp.stomp_consumer import StompConsumer
from leveret.broker.protocols.stomp.stomp_session import StompSession
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import settling

_PARTS: Final = 3
_DIGITS_MAX: Final = 18


def acknowledge(
    session: StompSession,
    command: str,
    headers: dict[str, str],
    version: str,
    requeues: bool,
) -> Steps | None:
    """Settle the deliveries that ACK or NACK names.

    requeues: whether NACK requeues them if it has no header `requeue`.

    Returns a coroutine that settles them if there are too many for this turn. Raises StompError,
    and 406 for a delivery that is not open.
    """
    name = "id" if version == "1.2" else "message-id"
    identifier = headers.get(name)
    if identifier is None:
        raise StompError("Missing header", f'"{command}" must include the "{name}" header\n')
    tag, delivery_tag = _read(identifier, command, name)
    record = session.unacked.records.get(delivery_tag)
    if record is not None:
        consumer = record.consumer
        if not isinstance(consumer, StompConsumer) or consumer.tag != tag:
            raise _no_subscription(identifier)
        is_cumulative = consumer.is_cumulative
    elif tag in session.consumers:
        is_cumulative = False
    else:
        raise _no_subscription(identifier)
    if command == "ACK":
        return settling.ack(session, delivery_tag, is_cumulative)
    if "requeue" in headers:
        requeues = truth_of(headers["requeue"])
    return settling.nack(session, delivery_tag, is_cumulative, requeues)


def _read(identifier: str, command: str, name: str) -> tuple[str, int]:
    """The consumer tag and the delivery tag in a message-id."""
    parts = identifier.split(SEPARATOR)
    if len(parts) < _PARTS or not _is_number(parts[-1]):
        raise StompError("Invalid header", f'"{command}" must include a valid "{name}" header\n')
    return SEPARATOR.join(parts[:-2]), int(parts[-1])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _no_subscription(identifier: str) -> StompError:
    detail = f'Message with id "{identifier}" has no subscription\n'
    return StompError("Subscription not found", detail)
