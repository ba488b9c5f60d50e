"""Questions that one node asks another one, each with one answer, over their link.

Management asks every running node for its part of a list, and has the node that a connection or a
channel is on show it. A question has a topic, for which the other node has registered what answers;
both texts are bytes that only the two ends of the topic understand.

Promise: `ask` returns the answer, or raises `NotAnswered`, within its time limit. A question is
answered at most once. Not promised: that a question that was not answered had no effect.

A frame is an octet (ASK, ANSWER or FAIL), the question's number (8 octets), and its text; that of a
question begins with the length of the topic (1 octet) and the topic.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from struct import Struct

from leveret.cluster.links.services import QUESTIONS_SERVICE, Peer, ServiceRegistry

ASK, ANSWER, FAIL = 1, 2, 3
HEAD = Struct(">BQ")
POLL_SECONDS = 0.05
ANSWERING_MAX = 1000
"""Questions of one node that are answered at a time; others fail at once."""

logger = logging.getLogger("leveret.cluster")

AnswerTo = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a question, given the name of the node that asks. An error's text is told to it."""


class NotAnswered(Exception):
    """A node did not answer: it is not linked, took too long, or could not."""


class Questions:
    """The questions that this node asks and answers. See `Service`."""

    def __init__(self, links: ServiceRegistry) -> None:
        self._peers: dict[str, Peer] = {}
        self._topics: dict[str, AnswerTo] = {}
        self._asked: dict[int, tuple[Peer, asyncio.Future[bytes]]] = {}
        self._answering: dict[Peer, set[asyncio.Task[None]]] = {}
        self._number = 0
        links.register(QUESTIONS_SERVICE, self)

    def answer(self, topic: str, answer_to: AnswerTo) -> None:
        """Have questions of a topic answered."""
        self._topics[topic] = answer_to

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that may be asked now."""
        return tuple(self._peers)

    async def linked(self, nodes: Collection[str], seconds_max: float) -> bool:
        """Wait until these nodes may be asked; whether all of them may."""
        deadline_s = asyncio.get_running_loop().time() + seconds_max
        while not self._peers.keys() >= set(nodes):
            if asyncio.get_running_loop().time() > deadline_s:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def ask(self, node: str, topic: str, text: bytes, seconds_max: float) -> bytes:
        """Ask a node, and wait for its answer. Raises NotAnswered."""
        peer = self._peers.get(node)
        if peer is None:
            raise NotAnswered(f"node {node} is not connected")
        self._number += 1
        number = self._number
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = peer, answer
        name = topic.encode()
        peer.send(QUESTIONS_SERVICE, HEAD.pack(ASK, number), bytes((len(name),)), name, text)
        try:
            return await asyncio.wait_for(answer, seconds_max)
        except TimeoutError:
            raise NotAnswered(f"node {node} did not answer within {seconds_max:g} s") from None
        finally:
            del self._asked[number]

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """See `Service`."""
        self._peers[peer.name] = peer
        self._answering[peer] = set()

    def peer_down(self, peer: Peer, reason: str) -> None:
        """See `Service`."""
        del self._peers[peer.name]
        for task in self._answering.pop(peer):
            task.cancel()
        for asked, answer in self._asked.values():
            if asked is peer and not answer.done():
                answer.set_exception(NotAnswered(f"the link to node {peer.name} ended: {reason}"))

    def received(self, peer: Peer, payload: bytes) -> None:
        """See `Service`. Raises ValueError for a frame that is none of these."""
        if len(payload) < HEAD.size:
            raise ValueError(f"a question of {len(payload)} bytes is too short")
        kind, number = HEAD.unpack_from(payload)
        text = payload[HEAD.size :]
        if kind == ASK:
            self._received_question(peer, number, text)
        elif kind in (ANSWER, FAIL):
            self._received_answer(peer, number, kind, text)
        else:
            raise ValueError(f"{kind} is not a kind of question")

    def drained(self, peer: Peer) -> None:
        """See `Service`. Questions are few and do not wait for room."""

    def _received_answer(self, peer: Peer, number: int, kind: int, text: bytes) -> None:
        asked, answer = self._asked.get(number, (None, None))
        if asked is not peer or answer is None or answer.done():
            # It came too late.
            return
        if kind == ANSWER:
            answer.set_result(text)
        else:
            answer.set_exception(NotAnswered(text.decode(errors="replace")))

    def _received_question(self, peer: Peer, number: int, text: bytes) -> None:
        if not text or len(text) < 1 + text[0]:
            raise ValueError("the topic of a question is cut off")
        topic = text[1 : 1 + text[0]].decode(errors="replace")
        answer_to, answering = self._topics.get(topic), self._answering[peer]
        if answer_to is None:
            self._fail(peer, number, f"this node knows no questions about {topic}")
        elif len(answering) >= ANSWERING_MAX:
            self._fail(peer, number, f"{ANSWERING_MAX} questions are being answered already")
        else:
            steps = self._answer(peer, number, answer_to(peer.name, text[1 + text[0] :]))
            task = asyncio.get_running_loop().create_task(steps)
            answering.add(task)
            task.add_done_callback(answering.discard)

    async def _answer(self, peer: Peer, number: int, answering: Awaitable[bytes]) -> None:
        try:
            text = await answering
        except Exception as error:
            # Whatever it is, the node that asks must not wait for the time limit.
            logger.exception("a question of node %s was not answered", peer.name)
            self._fail(peer, number, str(error))
        else:
            peer.send(QUESTIONS_SERVICE, HEAD.pack(ANSWER, number), text)

    def _fail(self, peer: Peer, number: int, reason: str) -> None:
        peer.send(QUESTIONS_SERVICE, HEAD.pack(FAIL, number), reason.encode())
