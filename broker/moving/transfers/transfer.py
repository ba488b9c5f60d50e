"""Messages from one channel to another: publishing and acknowledging.

A run of deliveries is published at once. The acknowledgement mode decides on acknowledgements to
the source, as in RabbitMQ's shovels and federation links (`rabbit_shovel_behaviour`,
`rabbit_federation_link_util`):

    on-confirm   an acknowledgement when the destination has confirmed the message
    on-publish   an acknowledgement when the message is published
    no-ack       nothing: the source forgets a message when it delivers it

While the destination accepts no messages, since its server has blocked the connection or its socket
is full, messages wait here. With acknowledgements, their number is at most the prefetch count, if
the source respects it; without acknowledgements, the source is paused. It is also paused while the
waiting messages have more bytes than `WAITING_BYTES_MAX`, or while more messages are unsettled than
any prefetch count explains.

A message that the destination refuses (`basic.nack`) goes back to its queue after `REFUSED_MS`,
because it would otherwise be redelivered immediately. It does not count as moved, unlike in
RabbitMQ.

A transfer may end after a number of messages. It publishes no more than that number, and has ended
when all of them are moved; further deliveries go back to their queue when the channel is closed.

A message that is returned because its queue is gone was not moved, although the destination
confirms it. A return does not identify the delivery, so nothing is settled after it.

A message that cannot be published, because its properties are damaged or do not fit into a frame of
the destination, ends the publishing: earlier messages are settled, and it stays in its queue. With
`leaves_out` it is treated like a refused one instead.

A message may be dropped: it is acknowledged, and not published.

Invariants:

TR1  A message is acknowledged at the source only after it was published, and with `on-confirm` only
     after the destination has confirmed it.
TR2  Each message is published once, or dropped, and settled once.

Pure.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Final, Protocol

from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM, ON_PUBLISH

REFUSED_MS: Final = 1000
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""A thousand messages of 32 KB: a thousand is RabbitMQ's prefetch count of shovels and links."""
UNSETTLED_MAX: Final = 2 * 65_535
"""Twice the largest prefetch count: a queue whose leader has died delivers as many again."""


class TransferDelivery(Protocol):
    """A delivered message."""

    @property
    def tag(self) -> int:
        """The tag by which it is settled."""

    @property
    def redelivered(self) -> bool:
        """Whether it has been delivered before."""

    @property
    def exchange(self) -> str:
        """The exchange to which it was published."""

    @property
    def routing_key(self) -> str:
        """The routing key with which it was published."""

    @property
    def properties(self) -> bytes:
        """The properties, encoded: flags and fields."""

    @property
    def body(self) -> bytes:
        """The body of the message."""


class TransferSource(Protocol):
    """The channel on which deliveries come."""

    def ack(self, tag: int, multiple: bool) -> None:
        """Acknowledge a delivery, or all up to it."""

    def nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        """Give back a delivery, or all up to it."""


class TransferDestination(Protocol):
    """The channel on which messages are published."""

    @property
    def is_writable(self) -> bool:
        """Whether neither its socket nor its server asks for a pause."""

    def publish(
        self, exchange: str, routing_key: str, properties: bytes, body: bytes, mandatory: bool
    ) -> int:
        """Publish a message; its number, if there are confirms: they count up from 1.

        Raises ValueError, with the reason, if the message does not fit into the server's frames.
        """


class Readdress:
    """Where messages are published, and with which properties.

    exchange, routing_key: None for the message's own. change: makes the properties of a delivery,
    or returns None to drop it; without it they stay as they are. mandatory: unroutable
    messages are returned.
    """

    __slots__ = ("change", "exchange", "mandatory", "routing_key")

    def __init__(
        self,
        exchange: str | None = None,
        routing_key: str | None = None,
        change: Callable[[TransferDelivery], bytes | None] | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.change = change
        self.mandatory = mandatory


class MessageTransfer:
    """One transfer between two channels.

    limit: after how many messages it ends; None for never. ended: called then. set_reading: has the
    source's connection read, or not. call_later_ms: calls a function after a number of
    milliseconds. forwarded: messages that were published. on_unpublishable: called with the reason
    why a message cannot be published. leaves_out: messages that cannot be published are treated
    like refused ones.
    """

    def __init__(
        self,
        source: TransferSource,
        destination: TransferDestination,
        ack_mode: str,
        readdress: Readdress,
        limit: int | None,
        ended: Callable[[], object],
        set_reading: Callable[[bool], object],
        call_later_ms: Callable[[int, Callable[[], object]], object],
    ) -> None:
        self._source = source
        self._destination = destination
        self._ack_mode = ack_mode
        self._readdress = readdress
        self._ended = ended
        self._set_reading = set_reading
        self._call_later_ms = call_later_ms
        self._to_publish = self._to_move = limit
        self._waiting: deque[TransferDelivery] = deque()
        self._waiting_bytes = 0
        # The source's tags of messages that are not confirmed, by their numbers, which count up.
        self._unconfirmed: dict[int, int] = {}
        self._refused: list[int] = []
        # Deliveries beyond the limit are left as they are, among those that are settled.
        self._leaves_some = False
        self._has_paused_source = self._is_leaving = False
        self._is_halted = False
        self._is_publishing = True
        self.on_unpublishable: Callable[[str], object] = _no_asker
        self.leaves_out = False
        self.forwarded = 0

    @property
    def remaining(self) -> int | None:
        """Messages still to be moved; None without a limit."""
        return self._to_move

    @property
    def remaining_unacked(self) -> int | None:
        """Messages still to be published; None without a limit."""
        return self._to_publish

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in flight to the destination, or settling has ended."""
        if self._is_halted:
            return True
        return not self._unconfirmed and not (self._waiting and self._is_publishing)

    @property
    def pending(self) -> int:
        """Messages that wait for the destination to take more."""
        return len(self._waiting)

    @property
    def unconfirmed(self) -> int:
        """Messages that the destination has neither confirmed nor refused."""
        return len(self._unconfirmed)

    @property
    def oldest_unconfirmed(self) -> int | None:
        """The number of the first of these; None if there is none."""
        return next(iter(self._unconfirmed), None)

    def take(self, deliveries: Sequence[TransferDelivery]) -> None:
        """A run of deliveries has come from the source."""
        if not self._is_publishing or self._is_leaving:
            return
        if self._waiting or not self._destination.is_writable:
            self._waiting.extend(deliveries)
            self._waiting_bytes += _body_bytes(deliveries)
            self._look_at_source()
        else:
            self._publish(deliveries)
            if len(self._unconfirmed) > UNSETTLED_MAX:
                self._look_at_source()

    def go_on(self) -> None:
        """Continue publishing: the destination may accept more."""
        waiting = self._waiting
        while waiting and self._is_publishing and self._destination.is_writable:
            run = [waiting.popleft() for _ in range(min(len(waiting), 256))]
            self._waiting_bytes -= _body_bytes(run)
            self._publish(run)
        self._look_at_source()

    def _look_at_source(self) -> None:
        """Pause the source if too many messages wait, or resume it."""
        waiting = len(self._waiting)
        if self._ack_mode == NO_ACK:
            is_too_much = waiting > 0
        else:
            unsettled = waiting + len(self._unconfirmed)
            is_too_much = self._waiting_bytes > WAITING_BYTES_MAX or unsettled > UNSETTLED_MAX
        if is_too_much is not self._has_paused_source and not self._is_leaving:
            self._has_paused_source = is_too_much
            self._set_reading(not is_too_much)

    def hear_source(self) -> None:
        """Read the source even if it was paused, because it is about to stop.

        With acknowledgements, deliveries after a pause are left: they go back to their queue.
        """
        if self._has_paused_source and self._ack_mode != NO_ACK:
            self._is_leaving = True
            self._set_reading(True)

    def _publish(self, deliveries: Sequence[TransferDelivery]) -> None:
        if self._to_publish is not None:
            self._leaves_some |= len(deliveries) > self._to_publish
            deliveries = deliveries[: self._to_publish]
            self._to_publish -= len(deliveries)
        while deliveries:
            deliveries = self._publish_some(deliveries)

    def _publish_some(self, deliveries: Sequence[TransferDelivery]) -> Sequence[TransferDelivery]:
        """Publish up to one that cannot be published; returns those to publish after it."""
        publish, unconfirmed = self._destination.publish, self._unconfirmed
        readdress = self._readdress
        exchange, routing_key, change = readdress.exchange, readdress.routing_key, readdress.change
        mandatory = readdress.mandatory
        waits = self._ack_mode == ON_CONFIRM
        dropped = 0
        try:
            for one in deliveries:
                properties = one.properties if change is None else change(one)
                if properties is None:
                    dropped += 1
                    if waits:
                        self._source.ack(one.tag, multiple=False)
                    continue
                number = publish(
                    one.exchange if exchange is None else exchange,
                    one.routing_key if routing_key is None else routing_key,
                    properties,
                    one.body,
                    mandatory,
                )
                if waits:
                    assert number not in unconfirmed, "TR2"
                    unconfirmed[number] = one.tag
        except ValueError as error:
            count = deliveries.index(one)
            self._published(deliveries[:count], dropped)
            return self._leave(deliveries[count:], str(error))
        self._published(deliveries, dropped)
        return ()

    def _published(self, deliveries: Sequence[TransferDelivery], dropped: int) -> None:
        """These deliveries were published, except for a number that was dropped."""
        if not deliveries:
            return
        self.forwarded += len(deliveries) - dropped
        if self._ack_mode == ON_CONFIRM:
            if dropped:
                self._moved(dropped)
            return
        if self._ack_mode == ON_PUBLISH:
            self._acknowledge([one.tag for one in deliveries], is_up_to_last=True)
        self._moved(len(deliveries))

    def _leave(
        self, deliveries: Sequence[TransferDelivery], reason: str
    ) -> Sequence[TransferDelivery]:
        """The first of these cannot be published; returns those to publish after it."""
        if self.leaves_out:
            if self._ack_mode != NO_ACK:
                self._refuse([deliveries[0].tag])
            deliveries = deliveries[1:]
        else:
            self._is_publishing = False
            if self._to_publish is not None:
                self._to_publish += len(deliveries)
            deliveries = ()
        self.on_unpublishable(reason)
        return deliveries

    def confirmed(self, number: int, multiple: bool, is_ack: bool) -> None:
        """The destination has confirmed or refused a message, or all up to it."""
        if self._is_halted:
            return
        tags = self._settled(number, multiple)
        if not tags:
            return
        if self._has_paused_source:
            self._look_at_source()
        if not is_ack:
            self._refuse(tags)
            return
        self._acknowledge(tags, multiple)
        self._moved(len(tags))

    def _acknowledge(self, tags: list[int], is_up_to_last: bool) -> None:
        """Acknowledge deliveries. is_up_to_last: no earlier delivery is still in flight."""
        if is_up_to_last and not self._refused and not self._leaves_some:
            # No earlier delivery is left, so all deliveries up to this one are acknowledged.
            self._source.ack(tags[-1], multiple=True)
        else:
            for tag in tags:
                self._source.ack(tag, multiple=False)

    def give_back_waiting(self) -> None:
        """Messages that wait for the destination go back to their queue.

        Without acknowledgements they stay: the source has forgotten them.
        """
        if self._ack_mode == NO_ACK or self._is_halted:
            return
        waiting = tuple(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._look_at_source()
        for one in waiting:
            self._source.nack(one.tag, multiple=False, requeue=True)

    def halt(self) -> None:
        """The destination has returned a message: stop settling and publishing."""
        self._is_halted, self._is_publishing = True, False

    def _settled(self, number: int, multiple: bool) -> list[int]:
        """The source's tags of messages that are no longer unconfirmed, in order."""
        unconfirmed = self._unconfirmed
        if not multiple:
            tag = unconfirmed.pop(number, None)
            return [] if tag is None else [tag]
        settled = list(takewhile(lambda one: one <= number, unconfirmed))
        return [unconfirmed.pop(one) for one in settled]

    def _refuse(self, tags: list[int]) -> None:
        if not self._refused:
            self._call_later_ms(REFUSED_MS, self._give_back)
        self._refused += tags
        if self._to_publish is not None:
            self._to_publish += len(tags)

    def _give_back(self) -> None:
        refused, self._refused = self._refused, []
        if self._is_halted:
            return
        for tag in refused:
            self._source.nack(tag, multiple=False, requeue=True)

    def _moved(self, count: int) -> None:
        if self._to_move is None:
            return
        self._to_move -= count
        if not self._to_move:
            self._ended()


def _body_bytes(deliveries: Iterable[TransferDelivery]) -> int:
    return sum(len(one.body) for one in deliveries)


def _no_asker(_reason: str) -> None:
    """Ignore the reason why a message cannot be published."""
