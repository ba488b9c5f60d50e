"""Publishes what clients send on the links of a session: runs of messages. Compiled.

Consecutive messages of a link that go to one address and that queues treat in the same way
(`ContentHeader.run_kind`) are a run, which is published in one call: at the latest when all frames
of a read are handled.
"""

from typing import Final

from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import NEEDS_CARE, PERSISTENT
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.net.reading import MANY_BYTES, MANY_MESSAGES
from leveret.broker.protocols.amqp10.addresses import AddressError, ExchangeAddress, read_to
from leveret.broker.protocols.amqp10.conditions import (
    DECODE_ERROR,
    INTERNAL_ERROR,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    SessionEnds,
)
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.message_reading import MessageReader
from leveret.broker.protocols.amqp10.messages import AnnotationRefused, SectionsTooLarge
from leveret.broker.protocols.amqp10.publishing_outcomes import (
    SETTLED_BY_CLIENT,
    PublishingOutcomes,
)
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import publishing
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.targets import RUN_WORK, PublishTarget, address_key
from leveret.storage.messages.message import Message

MESSAGE_WORK: Final = 4
"""The work of reading a message, in the units of broker/runtime/turns.py."""
_NO_KIND: Final = -1


class LinkPublisher:
    """Publishes the messages of one session. It has no reference to it, so no cycle is made.

    link: the link of the run; None if there is no run.
    """

    __slots__ = (
        "_body_bytes", "_count_max", "_delivery_ids", "_kind", "_messages", "_outcomes", "_reader",
        "_target", "_targets", "_turns", "link",
    )  # fmt: skip

    def __init__(self, session: Session, outcomes: PublishingOutcomes) -> None:
        self._turns = session.vhost.turns
        self._targets = session.connection.targets
        self._outcomes = outcomes
        # The standard's default, which RabbitMQ has since 4.2.
        self._reader = MessageReader(not session.services.config.is_as_rabbitmq_4_3)
        self.link: IncomingLink | None = None
        self._target: PublishTarget | None = None
        self._kind = _NO_KIND
        self._count_max: i64 = 1
        self._messages: list[Message] = []
        self._delivery_ids: list[int] = []
        self._body_bytes: i64 = 0

    def read(self, session: Session, link: IncomingLink, data: bytes, at: i64, end: i64) -> bool:
        """Read the message in these bytes; returns whether it can be added to the run.

        If not, the run has to be published before. Raises SessionEnds, and AddressError if the
        message does not say where it goes.
        """
        try:
            header = self._reader.read(data, at, end)
        except Amqp10Error as error:
            raise SessionEnds(DECODE_ERROR, f"a message is not valid: {error}") from None
        except AnnotationRefused as refused:
            raise SessionEnds(INTERNAL_ERROR, str(refused)) from None
        except SectionsTooLarge as too_large:
            raise SessionEnds(RESOURCE_LIMIT_EXCEEDED, str(too_large)) from None
        user = self._reader.user
        if user is not None:
            _check_user(session, user)
        self._turns.work_left -= MESSAGE_WORK
        messages = self._messages
        if not messages:
            self._target = self._target_of(link)
            return True
        if link is not self.link or len(messages) >= self._count_max:
            return False
        if header.run_kind != self._kind:
            return False
        return self._target_of(link) is self._target

    def add(self, link: IncomingLink) -> None:
        """Add the message that was read to the run. Raises SessionEnds."""
        reader = self._reader
        header = reader.header
        assert header is not None, "a message was read"
        target = self._target
        if not self._messages:
            target = self._target_of(link)
            self._begin(link, header, target)
        assert target is not None, "a run has a target"
        body = reader.body
        self._messages.append(Message(target.address, header, body))
        self._body_bytes += len(body)
        self._delivery_ids.append(SETTLED_BY_CLIENT if link.is_settled else link.delivery_id)

    def _begin(self, link: IncomingLink, header: ContentHeader, target: PublishTarget) -> None:
        self.link = link
        self._target = target
        self._kind = header.run_kind
        is_alone = header.kind >= NEEDS_CARE
        self._count_max = 1 if is_alone else max(1, self._turns.affordable(target.work))

    @property
    def message_count(self) -> int:
        """The messages of the run."""
        return len(self._messages)

    @property
    def is_persistent(self) -> bool:
        """Whether the messages of the run survive a restart."""
        return self._kind & 0xFF == PERSISTENT

    @property
    def is_much(self) -> bool:
        """Whether the run is so large that the client may outrun the consumers of its queues."""
        return len(self._messages) >= MANY_MESSAGES or self._body_bytes >= MANY_BYTES

    @property
    def queues(self) -> list[QueueClient]:
        """The queues of the run that was published last."""
        return [] if self._target is None else self._target.queues

    def publish(self, session: Session, first: int) -> Steps | None:
        """Publish the run. first: the confirm number of its first message.

        Raises ChannelFault; see `publishing.publish`.
        """
        messages, link, target = self._messages, self.link, self._target
        if link is None or target is None or not messages:
            return None
        publication = Publication(messages, int(self._body_bytes))
        delivery_ids = self._delivery_ids
        self._messages, self._delivery_ids, self._body_bytes = [], [], 0
        self.link = None
        self._outcomes.add(first, link, delivery_ids)
        self._turns.work_left -= RUN_WORK + target.work * len(messages)
        return publishing.publish(session, target, publication)

    # Addresses

    def _target_of(self, link: IncomingLink) -> PublishTarget:
        """The route of the message that was read."""
        targets = self._targets
        key = link.target_key
        if key is not None:
            target = targets.find(key)
            if target is not None:
                return target
        address = self._address_of(link)
        routing_key = address.routing_key
        if routing_key is None:
            routing_key = self._reader.subject or ""
        target = targets.find_by_address(address.exchange, routing_key, is_mandatory=True)
        if link.address is not None and address.routing_key is not None:
            link.target_key = address_key(target.address.encoded, is_mandatory=True)
        return target

    def _address_of(self, link: IncomingLink) -> ExchangeAddress:
        if link.address is not None:
            return link.address
        to = self._reader.to
        if to is None:
            raise AddressError("anonymous terminus requires 'to' address to be set")
        return read_to(to)

    def clear(self) -> None:
        """Forget the run: the session ends."""
        self._messages, self._delivery_ids, self._body_bytes = [], [], 0
        self.link = self._target = None


def _check_user(session: Session, claimed: str) -> None:
    """Raise SessionEnds unless the user may publish as the one that a message names."""
    user = session.connection.user
    if claimed != user.name and "impersonator" not in user.tags:
        raise SessionEnds(
            UNAUTHORIZED_ACCESS,
            f"user_id property set to '{claimed}' but authenticated user was '{user.name}'",
        )
