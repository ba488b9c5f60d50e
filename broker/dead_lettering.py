"""Dead-lettering: messages that died in a queue are published to its dead-letter exchange.

At most once and without confirms, as classic queues of RabbitMQ do it; dead_letter_worker.py does
it at least once. What the header of a dead letter says, and when it would go in a cycle, is in
queues/dead_letter.py.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from leveret.broker.amqp.content import encode_address
from leveret.broker.clock import Clock
from leveret.broker.pending import Answer
from leveret.broker.queues.dead_letter import (
    DEAD_LETTER_WORK,
    REJECTED,
    cc_keys,
    dead_letter_header,
    decoding_work,
    queues_in_cycle,
)
from leveret.broker.queues.queue_client import QueueClient
from leveret.broker.routing import RoutingVhost, header_of, publish
from leveret.storage.message import Address, Message

logger = logging.getLogger("leveret.vhost")


class DeadLetteringVhost(RoutingVhost, Protocol):
    """What dead-lettering needs of the virtual host."""

    clock: Clock
    is_as_rabbitmq_4: bool


class DeadLetterer:
    """Publishes the dead letters of one virtual host.

    A dead letter may be the death of another message, in the queue that it goes to. Such a one
    waits in the mailbox until the first is done, so that a chain of queues does not become a chain
    of calls. Letters for which no work is left in this turn wait for the next, and those behind
    one that goes to very many queues until these have it.
    """

    __slots__ = ("_is_publishing", "_mailbox", "_rest", "_vhost", "is_awake")

    def __init__(self, vhost: DeadLetteringVhost) -> None:
        self._vhost = vhost
        self._mailbox: deque[tuple[QueueClient, Message, str]] = deque()
        self._is_publishing = False
        self._rest: Answer[None] | None = None
        self.is_awake = False

    def add(self, queue: QueueClient, message: Message, reason: str) -> None:
        """A message died. It counts as work of who let it die, even if it has to wait here."""
        turns = self._vhost.turns
        turns.work_left -= work_of(message)
        if self._rest is not None:
            # Messages shall not die faster than very many queues are given their letters.
            turns.work_left = min(turns.work_left, 0)
        self._mailbox.append((queue, message, reason))
        if not self._is_publishing and not self.is_awake and self._rest is None:
            self._publish_waiting()

    def take_turn(self) -> None:
        """Publish the dead letters that have gathered, up to a turn's worth."""
        if self._mailbox and self._rest is None:
            self._publish_waiting()

    def _publish_waiting(self) -> None:
        self._is_publishing = True
        turns = self._vhost.turns
        try:
            self._publish(*self._mailbox.popleft())
            while self._mailbox and turns.work_left > 0 and self._rest is None:
                turns.work_left -= work_of(self._mailbox[0][1])
                self._publish(*self._mailbox.popleft())
        finally:
            self._is_publishing = False
        if self._rest is not None:
            self._rest.when_given(self._reached_all)
        elif self._mailbox:
            self._vhost.turns.wake(self)

    def _reached_all(self) -> None:
        """All of very many queues have the letter that the others wait for."""
        self._rest = None
        if self._mailbox:
            self._vhost.turns.wake(self)

    def _publish(self, queue: QueueClient, message: Message, reason: str) -> None:
        vhost, options = self._vhost, queue.options
        exchange = vhost.exchanges.get(options.dead_letter_exchange or "")
        if exchange is None:
            return
        time_s = int(vhost.clock.wall_time_s())
        letter, routing_keys = letter_of(vhost, queue, exchange.name, message, reason, time_s)

        def trace(queues: Sequence[QueueClient]) -> None:
            if vhost.tracer is not None:
                vhost.tracer.dead_lettered(queue, message, reason, letter, routing_keys, queues)

        in_cycle = names_in_cycle(letter, reason)

        def accepts(target: QueueClient) -> bool:
            if target.name not in in_cycle:
                return True
            logger.warning(
                "a dead letter of %r would reach %r in a cycle and is dropped", queue, target
            )
            return False

        self._rest = publish(
            vhost, exchange, letter, routing_keys, trace=trace,
            accepts=accepts if in_cycle else None,
        ).rest  # fmt: skip


def work_of(message: Message) -> int:
    """The work of publishing a message as a dead letter."""
    return DEAD_LETTER_WORK + decoding_work(header_of(message))


def names_in_cycle(letter: Message, reason: str) -> set[str]:
    """The queues from which a dead letter came by itself, without a client's rejection."""
    return set() if reason == REJECTED else queues_in_cycle(header_of(letter))


def letter_of(
    vhost: DeadLetteringVhost, queue: QueueClient, exchange: str, message: Message, reason: str,
    time_s: int, is_kept: bool = False,
) -> tuple[Message, list[str]]:  # fmt: skip
    """The message that goes on when one has died, and its routing keys.

    time_s: of the death. is_kept: durable queues keep it on disk, whatever its delivery mode is.
    """
    new_key = queue.options.dead_letter_routing_key
    header = header_of(message)
    copied = [] if new_key is not None else [*cc_keys(header.headers), *header.bcc_keys]
    routing_key = message.address.routing_key if new_key is None else new_key
    dead_header = dead_letter_header(
        header, message.address, queue.name, reason, time_s, drop_cc=new_key is not None,
        tells_last=vhost.is_as_rabbitmq_4,
    )  # fmt: skip
    if is_kept:
        dead_header = dead_header.as_persistent()
    address = Address(exchange, routing_key, encode_address(exchange, routing_key))
    number = vhost.tracer.take_numbers(1) if vhost.tracer is not None else 0
    return Message(address, dead_header, message.body, None, number), [routing_key, *copied]
