"""A message that has passed exchanges of the type x-message-deduplication, until it is safe.

It is the `Publisher` that the queues see. When all of them have the message safely, the exchanges
keep its identifier (seen_identifiers.py), and then its publisher gets the confirm. If a queue
refuses the message, they forget it: the publisher gets a nack, and may repeat the message.

A publisher that repeats the message meanwhile gets the same outcome.
"""

from typing import NamedTuple, Protocol

from leveret.broker.queues.contract.publication import Publisher


class SeenKey(NamedTuple):
    """The key of an identifier. until_ms: when it is forgotten, in milliseconds since 1970."""

    key: bytes
    until_ms: int


class PassedExchange(Protocol):
    """An exchange that the message has passed."""

    def keep(self, seen: SeenKey, message: "PassingMessage") -> None:
        """The message is safe: keep its identifier. What takes longer holds the message."""

    def give_up(self, seen: SeenKey) -> None:
        """A queue has refused the message."""


class PassingMessage:
    """One message. number: its publisher's number of it."""

    __slots__ = ("_exchanges", "_holders", "_is_kept", "_is_refused", "_outcomes")

    def __init__(self, publisher: Publisher, number: int) -> None:
        self._exchanges: list[tuple[PassedExchange, SeenKey]] = []
        self._holders: set[object] = {self}
        self._is_kept = self._is_refused = False
        self._outcomes: list[tuple[Publisher, int]] = []
        self.repeated(publisher, number)

    def passes(self, exchange: PassedExchange, seen: SeenKey) -> None:
        """It passes an exchange."""
        self._exchanges.append((exchange, seen))

    def repeated(self, publisher: Publisher, number: int) -> None:
        """Tell this publisher of the outcome, too."""
        publisher.hold(number, 1, self)
        self._outcomes.append((publisher, number))

    def is_given(self) -> None:
        """All queues were given the message, or a delivery holds it (fan_out.py) until they are:
        those that do not hold it have it safely.
        """
        self.confirm(0, self)

    # As a `Publisher`

    def hold(self, first: int, count: int, holder: object) -> None:
        """A queue will have the message safely later, or an exchange its identifier."""
        self._holders.add(holder)

    def confirm(self, first: int, holder: object) -> None:
        """It is done."""
        if holder not in self._holders:
            return
        self._holders.remove(holder)
        if self._holders:
            return
        if self._is_kept:
            self._tell_publishers()
        else:
            self._end_publishing()

    def refuse(self, number: int) -> None:
        """A queue refuses the message."""
        self._is_refused = True

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder is gone."""
        if holder in self._holders and not is_settled:
            self._is_refused = True
        self.confirm(0, holder)

    def _end_publishing(self) -> None:
        """All queues have the message, or have refused it."""
        self._is_kept = True
        self._holders.add(self)
        for exchange, seen in self._exchanges:
            if self._is_refused:
                exchange.give_up(seen)
            else:
                exchange.keep(seen, self)
        self.confirm(0, self)

    def _tell_publishers(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for publisher, number in outcomes:
            if self._is_refused:
                publisher.refuse(number)
            publisher.confirm(number, self)
