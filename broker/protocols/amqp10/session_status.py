"""The status of a session and its links, for management.

Links of management come first, as in RabbitMQ; links of one kind are in the order of their handles.
"""

from typing import Any, Final

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.addresses import MANAGEMENT
from leveret.broker.protocols.amqp10.amqp10_session import Amqp10Session
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.management_links import ManagementPair
from leveret.broker.protocols.amqp10.outgoing_link import OutgoingLink
from leveret.broker.protocols.amqp10.performatives import (
    SETTLED,
    UNSETTLED,
    Source,
    Target,
)
from leveret.broker.queues.contract.link_status import (
    IncomingLinkStatus,
    LinkFilter,
    OutgoingLinkStatus,
    SessionStatus,
)

_SETTLE_MODES: Final[dict[int | None, str]] = {UNSETTLED: "unsettled", SETTLED: "settled"}


def session_status(session: Amqp10Session) -> SessionStatus:
    """The status of a session."""
    windows = session.windows
    incoming = sorted(session.incoming.values(), key=_incoming_order)
    pairs = [(one.handle, name, one) for name, one in session.pairs.items()]
    return SessionStatus(
        channel=session.channel,
        handle_max=session.handle_max,
        next_incoming_id=windows.next_incoming_id,
        incoming_window=windows.incoming_window,
        next_outgoing_id=windows.next_outgoing_id,
        remote_incoming_window=windows.room,
        remote_outgoing_window=windows.remote_outgoing_window,
        unsettled=len(session.unacked),
        incoming=[_incoming(link) for link in incoming],
        outgoing=[
            *[
                _answering(handle, name, pair)
                for handle, name, pair in sorted(pairs, key=_handle)
                if handle is not None
            ],
            *[_outgoing(link) for _, link in sorted(session.outgoing.items())],
        ],
    )


def _incoming_order(link: IncomingLink) -> tuple[bool, int]:
    return not link.is_management, link.handle


def _handle(pair: tuple[int | None, str, ManagementPair]) -> int:
    return pair[0] or 0


def _incoming(link: IncomingLink) -> IncomingLinkStatus:
    request = link.request
    target = request.target or Target()
    return IncomingLinkStatus(
        handle=link.handle,
        name=text(link.name),
        snd_settle_mode=_SETTLE_MODES.get(request.snd_settle_mode, "mixed"),
        address=None if target.address is None else text(target.address),
        message_bytes_max=link.message_bytes_max,
        delivery_count=link.delivery_count,
        credit=link.credit,
        unconfirmed=link.unconfirmed,
    )


def _answering(handle: int, name: str, pair: ManagementPair) -> OutgoingLinkStatus:
    return OutgoingLinkStatus(
        handle=handle,
        name=text(name),
        address=MANAGEMENT,
        queue="",
        is_settled=True,
        message_bytes_max=pair.message_bytes_max,
        filters=[],
        delivery_count=pair.delivery_count,
        credit=pair.credit,
    )


def _outgoing(link: OutgoingLink) -> OutgoingLinkStatus:
    request = link.request
    source = request.source or Source()
    return OutgoingLinkStatus(
        handle=link.handle,
        name=text(request.name),
        address=None if source.address is None else text(source.address),
        queue=text(link.queue.name),
        is_settled=link.is_settled,
        message_bytes_max=request.max_message_size or None,
        filters=_filters(source.filter),
        delivery_count=link.delivery_count,
        credit=link.link_credit,
    )


def _filters(filters: Value | None) -> list[LinkFilter]:
    found: list[LinkFilter] = []
    for name, content in () if filters is None else filters.value:
        descriptor, value = content.value if content.kind == "described" else (name, content)
        shown = descriptor.value
        found.append(
            LinkFilter(text(name.value), shown if isinstance(shown, int) else text(shown),
                       _plain(value))
        )  # fmt: skip
    return found


def _plain(value: Value) -> Any:
    """A value as JSON: the entries of a map as objects with a key and a value."""
    content = value.value
    match value.kind:
        case "list" | "array":
            return [_plain(one) for one in content]
        case "map":
            return [{"key": _plain(key), "value": _plain(one)} for key, one in content]
        case "described":
            return _plain(content[1])
        case "binary" | "uuid":
            return text(content.decode("utf-8", "surrogateescape"))
    return text(content) if isinstance(content, str) else content
