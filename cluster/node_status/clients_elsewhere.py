"""One connection for each MQTT client identifier in all nodes of a cluster.

A node tells the others of each client that connects (`ClientTaken`). They end an older connection
with its identifier, and answer with `Ended`; then the client's session continues. When a link comes
up, each node sends the other all its clients (`ClientList`), so after a partition the newer
connections stay.

Promise: of connections with one identifier on nodes that are linked, all but the newest end. Not
promised: that there is only one while a link is down, or while `ClientTaken` is on the way. No
majority is needed: a node that is alone serves its clients. (RabbitMQ's register of client ids was
a Raft group; without a majority its clients could not connect, #221.)

A node that does not answer within ANSWER_MS_MAX is not waited for.

Invariant CE1: each answer of `taken` is given once: when all peers have answered, are down, or the
time is over.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.runtime.turns import Turns
from leveret.broker.services.client_ids import CLIENT_WORK, ClientIds, Since
from leveret.cluster.links.services import CLIENT_IDS_SERVICE, Peer, ServiceRegistry

FEATURE: Final = "client_ids"
"""The feature of nodes that have this service. Others are sent nothing."""
ANSWER_MS_MAX: Final = 5_000
CLIENTS_MAX: Final = 500
"""The clients of one frame."""

logger = logging.getLogger("leveret.cluster")


class ClientTaken(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A client has connected to the sender. number: for the answer. Names may not be UTF-8."""

    number: int
    vhost: bytes
    client_id: bytes
    time: int
    is_clean: bool


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The answer to a `ClientTaken`."""

    number: int


class ClientList(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Some of the clients of the sender: virtual host, identifier and time of each."""

    clients: list[tuple[bytes, bytes, int]]


Frame = ClientTaken | Ended | ClientList
_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class AwaitedAnswers:
    """The nodes that were told of a client and have not answered."""

    def __init__(self, nodes: set[Peer], answer: Answer[None]) -> None:
        self.nodes = nodes
        self.answer = answer
        self.cancel: Callable[[], object] = lambda: None


class ClientsElsewhere:
    """A `Service`, and the `ClientsOfOtherNodes` of this node's client identifiers."""

    def __init__(
        self, links: ServiceRegistry, clients: ClientIds, clock: Clock, turns: Turns
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._turns = turns
        self._peers: set[Peer] = set()
        self._asked: dict[int, AwaitedAnswers] = {}
        self._last_number = 0
        clients.others = self
        links.register(CLIENT_IDS_SERVICE, self)

    def taken(self, vhost: str, client_id: str, time: int, is_clean: bool) -> Answer[None]:
        """A client has connected here. The answer: no linked node has an older one any longer."""
        if not self._peers:
            return given(None)
        answer: Answer[None] = Answer()
        self._last_number += 1
        number = self._last_number
        asked = self._asked[number] = AwaitedAnswers(set(self._peers), answer)
        timer = self._clock.call_later_ms(ANSWER_MS_MAX, partial(self._give_up, number))
        asked.cancel = timer.cancel
        frame = ClientTaken(number, bytes_of(vhost), bytes_of(client_id), time, is_clean)
        for peer in self._peers:
            _send(peer, frame)
        return answer

    def _give_up(self, number: int) -> None:
        asked = self._asked.pop(number)
        names = ", ".join(sorted(peer.name for peer in asked.nodes))
        logger.warning(
            "nodes %s did not answer within %d ms whether they have an MQTT client with the same "
            "client id; continuing without them", names, ANSWER_MS_MAX,
        )  # fmt: skip
        asked.answer.give(None)

    def _answered(self, number: int, peer: Peer) -> None:
        asked = self._asked.get(number)
        if asked is None:
            return
        asked.nodes.discard(peer)
        if not asked.nodes:
            del self._asked[number]
            asked.cancel()
            asked.answer.give(None)

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up: tell it all clients."""
        if FEATURE not in peer.features:
            return
        self._peers.add(peer)
        if len(self._clients):
            name = f"the client ids for node {peer.name}"
            LongWork(self._turns, name, self._tell_all(peer)).start()

    def _tell_all(self, peer: Peer) -> Iterator[int]:
        clients = iter(self._clients)
        while peer in self._peers:
            part = [
                (bytes_of(vhost), bytes_of(client_id), time)
                for vhost, client_id, time in islice(clients, CLIENTS_MAX)
            ]
            if not part:
                return
            _send(peer, ClientList(part))
            yield CLIENT_WORK * len(part)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down: it is not waited for."""
        self._peers.discard(peer)
        for number in tuple(self._asked):
            self._answered(number, peer)

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is not valid."""
        frame = _DECODER.decode(payload)
        match frame:
            case ClientTaken():
                since = Since(frame.time, peer.name)
                self._clients.taken_elsewhere(
                    text_of(frame.vhost), text_of(frame.client_id), since, frame.is_clean
                )
                _send(peer, Ended(frame.number))
            case Ended():
                self._answered(frame.number, peer)
            case ClientList():
                for vhost, client_id, time in frame.clients:
                    since = Since(time, peer.name)
                    self._clients.taken_elsewhere(
                        text_of(vhost), text_of(client_id), since, is_clean=False
                    )

    def drained(self, peer: Peer) -> None:
        """Do nothing: the frames are small and do not wait for room."""


def _send(peer: Peer, frame: Frame) -> None:
    peer.send(CLIENT_IDS_SERVICE, msgspec.msgpack.encode(frame))
