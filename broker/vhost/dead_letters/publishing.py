"""Dead-lettering: messages that died in a queue are published to its dead-letter exchange.

Letters are published at most once and without confirms, as by RabbitMQ's classic queues; worker.py
publishes at least once. queues/dead_letters/header.py makes the headers of dead letters and finds
cycles.

Messages that die together in one queue for one reason form a run. Their dead letters are made one
by one, and published in runs again (`letter_runs`): letters to one address that queues treat alike
and that died in the same queues. Such a run is routed once if the exchange decides by the key.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.exchanges.router import WORK_AT_ONCE, Route
from leveret.broker.queues.contract.publication import Publication, publication_of
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.dead_letters.header import DeathNotes, letter_work
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.log_limit import LogLimit
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.fan_out import QUEUES_AT_ONCE
from leveret.broker.vhost.routing import (
    ROUTED_WORK,
    RoutingVhost,
    deliver,
    header_of,
    publish,
    queues_by_key,
)
from leveret.broker.vhost.unroutable_messages import UnroutableMessages
from leveret.storage.messages.message import Address, Message

logger = logging.getLogger("leveret.vhost")


class DeadLetteringVhost(RoutingVhost, Protocol):
    """The virtual host, as dead-lettering sees it.

    header_after_delay: changes the headers of dead letters that have a form of another protocol:
    one that was waiting to be published may expire from now on.
    """

    clock: Clock
    header_after_delay: Callable[[ContentHeader], ContentHeader] | None
    is_as_rabbitmq_4: bool
    unroutable: UnroutableMessages


class Dead(NamedTuple):
    """Messages that died together in one queue, for one reason."""

    queue: QueueClient
    messages: list[Message]
    reason: str


class LetterRun(NamedTuple):
    """Dead letters that are published together: to one address, alike for queues.

    died: the messages that they are made of, as they were in their queue.
    routing_keys: the address's, and those of CC and BCC; a letter with CC or BCC is a run by
    itself. in_cycle: the names of the queues that the letters have left without a client's
    rejection.
    """

    died: list[Message]
    letters: list[Message]
    routing_keys: list[str]
    in_cycle: frozenset[str]


class DeadLetterer(Actor):
    """Publishes the dead letters of one virtual host.

    A dead letter may cause the death of another message, in the queue that it goes to. That message
    waits in the mailbox until the first is done, so that a chain of queues does not become a chain
    of calls. Letters for which no work is left in this turn wait for the next turn, and letters
    behind one that goes to very many queues wait until these have it.
    """

    __slots__ = ("_is_publishing", "_log_limit", "_mailbox", "_rest", "_vhost")

    def __init__(self, vhost: DeadLetteringVhost) -> None:
        super().__init__()
        self._vhost = vhost
        self._mailbox: deque[Dead] = deque()
        self._is_publishing = False
        self._rest: Answer[None] | None = None
        self._log_limit = LogLimit()

    def add(self, queue: QueueClient, messages: list[Message], reason: str) -> None:
        """Messages died. The caller has counted the work of publishing their letters."""
        dead = Dead(queue, messages, reason)
        if self._is_publishing or self.is_awake or self._rest is not None:
            self._mailbox.append(dead)
            if self._rest is not None:
                # Messages must not die faster than their letters reach very many queues.
                self._vhost.turns.work_left = min(self._vhost.turns.work_left, 0)
            return
        self._publish_all(dead)

    def take_turn(self) -> None:
        """Publish the dead letters that have gathered, up to the work of one turn."""
        if self._mailbox and self._rest is None:
            self._publish_all(None)

    def _publish_all(self, first: Dead | None) -> None:
        """Publish letters of messages that have just died, and those in the mailbox that fit."""
        self._is_publishing = True
        try:
            if first is not None:
                self._publish(first)
            while self._mailbox and self._vhost.turns.work_left > 0 and self._rest is None:
                self._publish(self._next())
        finally:
            self._is_publishing = False
        if self._rest is not None:
            self._rest.when_given(self._reached_all)
        elif self._mailbox:
            self._vhost.turns.wake(self)

    def _next(self) -> Dead:
        """Take from the mailbox what may be published in this turn, and count its work."""
        turns, dead = self._vhost.turns, self._mailbox.popleft()
        count = 0
        while count < len(dead.messages) and turns.work_left > 0:
            turns.work_left -= work_of(dead.messages[count])
            count += 1
        self._put_back(dead, count)
        return dead._replace(messages=dead.messages[:count])

    def _put_back(self, dead: Dead, done: int) -> None:
        if done < len(dead.messages):
            self._mailbox.appendleft(dead._replace(messages=dead.messages[done:]))

    def _reached_all(self) -> None:
        """All of very many queues have the letter that later letters wait for."""
        self._rest = None
        if self._mailbox:
            self._vhost.turns.wake(self)

    def _publish(self, dead: Dead) -> None:
        """Publish dead letters, up to one that goes to very many queues, or until routing has taken
        long. The work of all others was counted when they died.
        """
        vhost = self._vhost
        name = dead.queue.options.dead_letter_exchange or ""
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            for run in letter_runs(vhost, dead, name):
                vhost.unroutable.note(run.letters, "", False)
            return
        done = 0
        work_left_min = vhost.turns.work_left - WORK_AT_ONCE
        for run in letter_runs(vhost, dead, name):
            done += self._publish_run(dead, exchange, run, work_left_min)
            if self._rest is not None or vhost.turns.work_left <= work_left_min:
                self._put_back(dead, done)
                return

    def _publish_run(
        self, dead: Dead, exchange: Exchange, run: LetterRun, work_left_min: int
    ) -> int:
        """Publish letters of a run, as `_publish` does; return the number of published letters."""
        queues = None
        if len(run.routing_keys) == 1:
            queues = queues_by_key(self._vhost, exchange, run.routing_keys[0])
        if queues is None or len(queues) > QUEUES_AT_ONCE:
            return self._publish_each(dead, exchange, run, work_left_min)
        if run.in_cycle:
            queues = self._outside_cycle(queues, dead, run)
        vhost, letters = self._vhost, run.letters
        if vhost.tracer is not None:
            for message, letter in zip(run.died, letters, strict=True):
                self._trace(dead, message, letter, run, queues)
        vhost.turns.work_left -= ROUTED_WORK * len(queues)
        if not queues:
            vhost.unroutable.note(letters, "", False)
        deliver(vhost, queues, publication_of(letters, header_of(letters[0]).ttl_ms))
        return len(letters)

    def _publish_each(
        self, dead: Dead, exchange: Exchange, run: LetterRun, work_left_min: int
    ) -> int:
        """Publish a run to an exchange that decides message by message, or to very many queues."""
        count = 0
        for message, letter in zip(run.died, run.letters, strict=True):
            count += 1
            publication = Publication([letter], len(letter.body), header_of(letter).ttl_ms)
            self._rest = publish(
                self._vhost, exchange, publication, run.routing_keys,
                routed=partial(self._routed, dead, message, letter, run),
                choose=partial(self._outside_cycle, dead=dead, run=run) if run.in_cycle else None,
            )  # fmt: skip
            if self._rest is not None or self._vhost.turns.work_left <= work_left_min:
                break
        return count

    def _routed(
        self,
        dead: Dead,
        message: Message,
        letter: Message,
        run: LetterRun,
        queues: list[QueueClient],
        found: Route,
    ) -> None:
        self._trace(dead, message, letter, run, queues)
        if not queues and not found.delaying and not found.refusing:
            self._vhost.unroutable.note([letter], "", False)

    def _trace(
        self,
        dead: Dead,
        message: Message,
        letter: Message,
        run: LetterRun,
        queues: Sequence[QueueClient],
    ) -> None:
        tracer = self._vhost.tracer
        if tracer is not None:
            tracer.dead_lettered(dead.queue, message, dead.reason, letter, run.routing_keys, queues)

    def _outside_cycle(
        self, queues: list[QueueClient], dead: Dead, run: LetterRun
    ) -> list[QueueClient]:
        """The queues in which the letters would not complete a cycle."""
        for queue in queues:
            if queue.name in run.in_cycle:
                self._warn(dead.queue, queue)
        return [queue for queue in queues if queue.name not in run.in_cycle]

    def _warn(self, died_in: QueueClient, queue: QueueClient) -> None:
        """A letter is dropped. Clients can cause many: a pair gets a few log lines a minute."""
        now_ms = self._vhost.clock.now_ms()
        addition = self._log_limit.permit(f"{died_in.name} {queue.name}", now_ms)
        if addition is not None:
            logger.warning(
                "a dead letter of %r would reach %r in a cycle and is dropped%s",
                died_in, queue, addition,
            )  # fmt: skip


def work_of(message: Message) -> int:
    """The work of publishing a message as a dead letter."""
    return letter_work(header_of(message))


def letter_runs(
    vhost: DeadLetteringVhost, dead: Dead, exchange: str, time_s: int | None = None
) -> Iterator[LetterRun]:
    """The dead letters of messages that have just died, in runs.

    exchange: the name of their exchange. time_s: the time of the deaths, if they died earlier.
    """
    new_key = dead.queue.options.dead_letter_routing_key
    if time_s is None:
        time_s = int(vhost.clock.wall_time_s())
    notes = DeathNotes(
        dead.queue.name, dead.reason, time_s, new_key is not None, vhost.is_as_rabbitmq_4
    )
    addresses: dict[str, Address] = {}
    run: LetterRun | None = None
    for message in dead.messages:
        header, record = notes.add(header_of(message), message.address)
        if header.form is not None and vhost.header_after_delay is not None:
            header = vhost.header_after_delay(header)
        key = message.address.routing_key if new_key is None else new_key
        address = addresses.get(key)
        if address is None:
            address = addresses[key] = Address(exchange, key, encode_address(exchange, key))
        number = vhost.tracer.take_numbers(1) if vhost.tracer is not None else 0
        letter = Message(address, header, message.body, None, number)
        copied = [] if new_key is not None else [*record.copied_keys, *header.bcc_keys]
        if run is not None:
            if not copied and _belongs(letter, record.in_cycle, run):
                run.died.append(message)
                run.letters.append(letter)
                continue
            yield run
        run = LetterRun([message], [letter], [key, *copied], record.in_cycle)
    if run is not None:
        yield run


def _belongs(letter: Message, in_cycle: frozenset[str], run: LetterRun) -> bool:
    """A letter without copied keys and without a lifetime can be published in a run with others."""
    first = run.letters[0]
    return (
        letter.address is first.address
        and not header_of(letter).expires
        and len(run.routing_keys) == 1
        and header_of(letter).run_kind == header_of(first).run_kind
        and in_cycle == run.in_cycle
    )
