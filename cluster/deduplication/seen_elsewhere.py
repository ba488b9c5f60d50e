"""The identifiers that exchanges of the type x-message-deduplication have seen, on all nodes.

A node tells the others of each identifier when its message is safe (`IdentifiersSeen`). They answer
when they have it, on disk if the exchange wants that (`IdentifierKept`), and only then the
publisher gets its confirm. A node that starts, gets a link or learns of an exchange asks for what
the others have (`IdentifiersWanted`), and gets it in parts, with `IdentifiersTold` as the last one.

What is promised, and what is not: broker/vhost/seen_identifiers.py.

Invariant SI2: each answer of `tell` is given once: when all peers have answered or are down.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.queues.deduplication.identifiers import FOREVER
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.broker.vhost.passing_messages import SeenKey
from leveret.broker.vhost.seen_identifiers import ExchangePlace, SeenPlaces
from leveret.cluster.links.services import IDENTIFIERS_SERVICE, Peer, ServiceRegistry

IDENTIFIERS_FEATURE: Final = "exchange_identifiers"
"""The feature of nodes that have this service. Others are sent nothing."""
KEYS_MAX: Final = 500
"""The identifiers of one frame."""
KEY_WORK: Final = 2
"""The work of sending one, in the units of broker/runtime/turns.py."""
CATCH_UP_MS_MAX: Final = 30_000
"""How long a node that starts waits for what the others have seen."""


class IdentifiersSeen(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The sender has seen these keys at an exchange. Names may not be UTF-8.

    number: for the answer; 0 if none is wanted. keys: with the times until which they are known, in
    milliseconds since 1970; 0 for no limit.
    """

    number: int
    vhost: bytes
    exchange: bytes
    keys: list[tuple[bytes, int]]


class IdentifierKept(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The answer to a `IdentifiersSeen`."""

    number: int


class IdentifiersWanted(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The sender asks what the other node has seen at an exchange."""

    vhost: bytes
    exchange: bytes


class IdentifiersTold(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The last part of the answer to a `IdentifiersWanted`."""

    vhost: bytes
    exchange: bytes


Frame = IdentifiersSeen | IdentifierKept | IdentifiersWanted | IdentifiersTold
_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class AwaitedNodes:
    """The nodes that were told of an identifier and have not answered."""

    def __init__(self, nodes: set[Peer]) -> None:
        self.nodes = nodes
        self.answer: Answer[None] = Answer()


class SeenOnOtherNodes:
    """A `Service`, and the `SeenElsewhere` of this node's exchanges."""

    def __init__(
        self, links: ServiceRegistry, places: SeenPlaces, clock: Clock, turns: Turns
    ) -> None:
        self._places = places
        self._clock = clock
        self._turns = turns
        self._peers: set[Peer] = set()
        self._told: dict[int, AwaitedNodes] = {}
        self._last_number = 0
        self._asked: set[tuple[Peer, ExchangePlace]] = set()
        self._caught_up: Answer[None] | None = None
        places.others = self
        links.register(IDENTIFIERS_SERVICE, self)

    # What exchanges call

    def declared(self, place: ExchangePlace) -> None:
        """An exchange is declared: ask the others what they have seen at it."""
        for peer in self._peers:
            self._ask(peer, place)

    def tell(self, place: ExchangePlace, seen: SeenKey) -> Answer[None] | None:
        """Tell the others of an identifier. The answer: they have it; None if there are none."""
        if not self._peers:
            return None
        self._last_number += 1
        awaited = self._told[self._last_number] = AwaitedNodes(set(self._peers))
        frame = _seen_frame(self._last_number, place, [seen])
        for peer in self._peers:
            _send(peer, frame)
        return awaited.answer

    # A node that starts

    def caught_up(self) -> Answer[None]:
        """Given when the linked nodes have told this one what they have seen, or time is over."""
        answer = self._caught_up = Answer()
        self._clock.call_later_ms(CATCH_UP_MS_MAX, self._give_up)
        self._look_caught_up()
        return answer

    def _give_up(self) -> None:
        if self._caught_up is not None:
            self._caught_up.give(None)
            self._caught_up = None

    def _look_caught_up(self) -> None:
        if not self._asked:
            self._give_up()

    def _ask(self, peer: Peer, place: ExchangePlace) -> None:
        self._asked.add((peer, place))
        _send(peer, IdentifiersWanted(bytes_of(place.vhost), bytes_of(place.exchange)))

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up: ask what it has seen."""
        if IDENTIFIERS_FEATURE in peer.features:
            self._peers.add(peer)
            for place, _ in self._places:
                self._ask(peer, place)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down: it is not waited for."""
        self._peers.discard(peer)
        self._asked = {asked for asked in self._asked if asked[0] is not peer}
        for number in tuple(self._told):
            self._answered(number, peer)
        self._look_caught_up()

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is not valid."""
        frame = _DECODER.decode(payload)
        match frame:
            case IdentifiersSeen():
                self._saw(peer, frame)
            case IdentifierKept():
                self._answered(frame.number, peer)
            case IdentifiersWanted():
                place = ExchangePlace(text_of(frame.vhost), text_of(frame.exchange))
                name = f"the identifiers of {place.exchange} for node {peer.name}"
                LongWork(self._turns, name, self._telling(peer, place)).start()
            case IdentifiersTold():
                place = ExchangePlace(text_of(frame.vhost), text_of(frame.exchange))
                self._asked.discard((peer, place))
                self._look_caught_up()

    def drained(self, peer: Peer) -> None:
        """Do nothing: the frames are small, and publishers wait for the answers."""

    def _saw(self, peer: Peer, frame: IdentifiersSeen) -> None:
        found = self._places.find(ExchangePlace(text_of(frame.vhost), text_of(frame.exchange)))
        answer: Answer[None] = Answer()
        if found is None:
            # It asks when it learns of the exchange.
            answer.give(None)
        else:
            found.saw_elsewhere([SeenKey(key, until_ms or FOREVER) for key, until_ms in frame.keys])
            found.when_safe(answer)
        if frame.number:
            answer.when_given(lambda: self._keep(peer, frame.number))

    def _keep(self, peer: Peer, number: int) -> None:
        if peer in self._peers:
            _send(peer, IdentifierKept(number))

    def _telling(self, peer: Peer, place: ExchangePlace) -> Iterator[int]:
        """The steps of telling a node what this one has seen at an exchange."""
        found = self._places.find(place)
        seen = iter(()) if found is None else found.listed()
        while peer in self._peers:
            part = list(islice(seen, KEYS_MAX))
            if not part:
                _send(peer, IdentifiersTold(bytes_of(place.vhost), bytes_of(place.exchange)))
                return
            _send(peer, _seen_frame(0, place, part))
            yield KEY_WORK * len(part)

    def _answered(self, number: int, peer: Peer) -> None:
        awaited = self._told.get(number)
        if awaited is None:
            return
        awaited.nodes.discard(peer)
        if not awaited.nodes:
            del self._told[number]
            awaited.answer.give(None)


def _seen_frame(number: int, place: ExchangePlace, seen: list[SeenKey]) -> IdentifiersSeen:
    keys = [(one.key, 0 if one.until_ms == FOREVER else one.until_ms) for one in seen]
    return IdentifiersSeen(number, bytes_of(place.vhost), bytes_of(place.exchange), keys)


def _send(peer: Peer, frame: Frame) -> None:
    peer.send(IDENTIFIERS_SERVICE, msgspec.msgpack.encode(frame))
