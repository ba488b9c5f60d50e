"""Requests from one node to another over their link, each with one answer.

Management asks every running node for its part of a list, and the node of a connection or a channel
for its details. A request has a topic, for which the other node has registered a function that
answers. The texts of the request and the answer are bytes that only the code of the topic reads.

Promise: `ask` returns the answer, or raises `NotAnswered`, within its time limit. A request is
answered at most once. Not promised: that a request without an answer had no effect.

A frame is an octet (ASK, ANSWER, FAIL or WORKING), the request's number (8 octets), and its text;
the text of a request begins with the length of the topic (1 octet) and the topic. WORKING says
that the answer is being made, so the asking node can tell long work from a suspended node.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from struct import Struct

import msgspec

from leveret.cluster.links.services import RPC_SERVICE, Peer, ServiceRegistry
from leveret.cluster.rpc.refused import Refused

ASK, ANSWER, FAIL, WORKING = 1, 2, 3, 4
HEAD = Struct(">BQ")
POLL_SECONDS = 0.05
WORKING_SECONDS = 0.3
"""How often WORKING is sent."""
ANSWERING_MAX = 1000
"""The most requests of one node that are answered at a time; more fail at once."""

logger = logging.getLogger("leveret.cluster")

AnswerTo = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a request, given the name of the asking node and the text.

It raises Refused to refuse the request; other errors are faults of this node. The asking node gets
the text of either.
"""


class NotAnswered(Exception):
    """A node did not answer: it is not linked, took too long, or failed."""


class OpenRequest:
    """A request that waits for its answer.

    is_working: WORKING has arrived since `awaited` last checked.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_working = False

    async def awaited(self, seconds_max: float, silence_seconds_max: float) -> bytes:
        """The answer. Raises TimeoutError and NotAnswered."""
        async with asyncio.timeout(seconds_max):
            while not self.answer.done():
                self.is_working = False
                done, _ = await asyncio.wait((self.answer,), timeout=silence_seconds_max)
                if not done and not self.is_working:
                    raise TimeoutError
        return self.answer.result()


class SignsOfWork:
    """Calls `tell` every WORKING_SECONDS until `end`."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell
        self._timer = asyncio.get_running_loop().call_later(WORKING_SECONDS, self._beat)

    def _beat(self) -> None:
        self._tell()
        self._timer = asyncio.get_running_loop().call_later(WORKING_SECONDS, self._beat)

    def end(self) -> None:
        """Stop: the answer is made."""
        self._timer.cancel()


class Rpc:
    """A `Service`: the requests that this node sends and answers."""

    def __init__(self, links: ServiceRegistry) -> None:
        self._peers: dict[str, Peer] = {}
        self._topics: dict[str, AnswerTo] = {}
        self._asked: dict[int, OpenRequest] = {}
        self._answering: dict[Peer, set[asyncio.Task[None]]] = {}
        self._number = 0
        links.register(RPC_SERVICE, self)

    def answer(self, topic: str, answer_to: AnswerTo) -> None:
        """Register the function that answers requests with this topic."""
        self._topics[topic] = answer_to

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that can be asked now."""
        return tuple(self._peers)

    async def linked(self, nodes: Collection[str], seconds_max: float) -> bool:
        """Wait until these nodes can be asked. Returns whether all of them can."""
        deadline_s = asyncio.get_running_loop().time() + seconds_max
        while not self._peers.keys() >= set(nodes):
            if asyncio.get_running_loop().time() > deadline_s:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def ask(
        self,
        node: str,
        topic: str,
        text: bytes,
        seconds_max: float,
        silence_seconds_max: float | None = None,
    ) -> bytes:
        """Ask a node, and wait for its answer. Raises NotAnswered.

        silence_seconds_max: how long to wait without a sign that the node is working on the answer.
        """
        peer = self._peers.get(node)
        if peer is None:
            raise NotAnswered(f"node {node} is not connected")
        self._number += 1
        number = self._number
        asked = self._asked[number] = OpenRequest(peer)
        name = topic.encode()
        peer.send(RPC_SERVICE, HEAD.pack(ASK, number), bytes((len(name),)), name, text)
        silence_s = seconds_max if silence_seconds_max is None else silence_seconds_max
        try:
            return await asked.awaited(seconds_max, silence_s)
        except TimeoutError:
            raise NotAnswered(f"node {node} did not answer within {silence_s:g} s") from None
        finally:
            del self._asked[number]

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self._peers[peer.name] = peer
        self._answering[peer] = set()

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        del self._peers[peer.name]
        for task in self._answering.pop(peer):
            task.cancel()
        for asked in self._asked.values():
            if asked.peer is peer and not asked.answer.done():
                error = NotAnswered(f"the link to node {peer.name} ended: {reason}")
                asked.answer.set_exception(error)

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is not valid."""
        if len(payload) < HEAD.size:
            raise ValueError(f"a request of {len(payload)} bytes is too short")
        kind, number = HEAD.unpack_from(payload)
        text = payload[HEAD.size :]
        if kind == ASK:
            self._received_request(peer, number, text)
        elif kind in (ANSWER, FAIL, WORKING):
            self._received_answer(peer, number, kind, text)
        else:
            raise ValueError(f"{kind} is not a kind of request")

    def drained(self, peer: Peer) -> None:
        """Do nothing: requests are few and do not wait for room."""

    def _received_answer(self, peer: Peer, number: int, kind: int, text: bytes) -> None:
        asked = self._asked.get(number)
        if asked is None or asked.peer is not peer or asked.answer.done():
            # The answer came too late.
            return
        if kind == ANSWER:
            asked.answer.set_result(text)
        elif kind == WORKING:
            asked.is_working = True
        else:
            asked.answer.set_exception(NotAnswered(text.decode(errors="replace")))

    def _received_request(self, peer: Peer, number: int, text: bytes) -> None:
        if not text or len(text) < 1 + text[0]:
            raise ValueError("the topic of a request is cut off")
        topic = text[1 : 1 + text[0]].decode(errors="replace")
        answer_to, answering = self._topics.get(topic), self._answering[peer]
        if answer_to is None:
            self._fail(peer, number, f"this node does not answer requests about {topic}")
        elif len(answering) >= ANSWERING_MAX:
            self._fail(peer, number, f"{ANSWERING_MAX} requests are being answered already")
        else:
            steps = self._answer(peer, number, answer_to(peer.name, text[1 + text[0] :]))
            task = asyncio.get_running_loop().create_task(steps)
            answering.add(task)
            task.add_done_callback(answering.discard)

    async def _answer(self, peer: Peer, number: int, answering: Awaitable[bytes]) -> None:
        frame = HEAD.pack(WORKING, number)
        signs = SignsOfWork(lambda: peer.send(RPC_SERVICE, frame))
        try:
            text = await answering
        except (Refused, NotAnswered) as error:
            # A refusal is an answer, even if it comes from a third node that was asked.
            logger.info("refused a request of node %s: %s", peer.name, error)
            self._fail(peer, number, str(error))
        except msgspec.MsgspecError as error:
            logger.warning("a request of node %s is damaged: %s", peer.name, error)
            self._fail(peer, number, f"the request is damaged: {error}")
        except Exception as error:
            # With any error the asking node must not have to wait for the time limit.
            logger.exception("failed to answer a request of node %s", peer.name)
            self._fail(peer, number, str(error))
        else:
            peer.send(RPC_SERVICE, HEAD.pack(ANSWER, number), text)
        finally:
            signs.end()

    def _fail(self, peer: Peer, number: int, reason: str) -> None:
        peer.send(RPC_SERVICE, HEAD.pack(FAIL, number), reason.encode())
