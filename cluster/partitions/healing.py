"""Autoheal on a running node: asks for the reports, sends the verdict, obeys a verdict.

    the first node by name                      every other node
    partitioned ── "partition report?" ───────► Report
    all answered: decide (partitions/autoheal.py)
                ── "partition verdict" ───────► a loser restarts, with the metadata of the winners

Nothing is sent while there is no partition. A round in which a node does not answer, or answers
that it is in no view, decides nothing; the next round begins `ROUND_MS` later. RabbitMQ also waits
for all nodes.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from leveret.broker.runtime.clock import Clock
from leveret.cluster.partitions.autoheal import PartitionReport, Verdict, decide, decides, has_lost
from leveret.cluster.rpc.rpc import NotAnswered, Rpc

REPORT, VERDICT = "partition.report", "partition.verdict"
"""The topics of the requests."""
ROUND_MS = 1_000
ANSWER_SECONDS_MAX = 2.0

_report = msgspec.msgpack.Decoder(PartitionReport | None)
_verdict = msgspec.msgpack.Decoder(Verdict)

logger = logging.getLogger("leveret.cluster")


class Healing:
    """Autoheal at one node.

    cluster: the names of all nodes. report: this node's report; None while it is in no view.
    give_way: called with the winners when this node has lost.
    """

    def __init__(
        self,
        rpc: Rpc,
        clock: Clock,
        me: str,
        cluster: Callable[[], frozenset[str]],
        report: Callable[[], PartitionReport | None],
        give_way: Callable[[tuple[str, ...]], object],
    ) -> None:
        self._rpc = rpc
        self._clock = clock
        self._me = me
        self._cluster = cluster
        self._own_report = report
        self._give_way = give_way
        self._round: asyncio.Task[None] | None = None
        self._next_round_ms = 0
        self._told = ""
        rpc.answer(REPORT, self._answer_report)
        rpc.answer(VERDICT, self._hear_verdict)

    def tick(self) -> None:
        """Start a round if one is due; called every fraction of a second."""
        now_ms = self._clock.now_ms()
        is_under_way = self._round is not None and not self._round.done()
        if is_under_way or now_ms < self._next_round_ms:
            return
        own = self._own_report()
        cluster = self._cluster()
        if own is None or not own.partitioned_from or not decides(self._me, cluster):
            return
        self._next_round_ms = now_ms + ROUND_MS
        if set(self._rpc.nodes) >= cluster - {self._me}:
            self._round = asyncio.get_running_loop().create_task(self._decide(cluster))

    async def stop(self) -> None:
        """Stop the current round."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait((self._round,))

    # At the first node

    async def _decide(self, cluster: frozenset[str]) -> None:
        others = sorted(cluster - {self._me})
        try:
            answers = await asyncio.gather(*(self._ask(name, REPORT, b"") for name in others))
            reports = [self._own_report(), *map(_report.decode, answers)]
        except (NotAnswered, msgspec.DecodeError) as error:
            self._tell(f"autoheal waits for a report of each node: {error}")
            return
        verdict = decide(cluster, [one for one in reports if one is not None])
        if verdict is None:
            return
        self._tell(f"autoheal: the winners are {', '.join(verdict.winners)}")
        text = msgspec.msgpack.encode(verdict)
        told = await asyncio.gather(
            *(self._ask(name, VERDICT, text) for name in others), return_exceptions=True
        )
        for name, outcome in zip(others, told, strict=True):
            if isinstance(outcome, Exception):
                self._tell(f"autoheal: node {name} may not know the winners: {outcome}")
        self._obey(verdict)

    async def _ask(self, name: str, topic: str, text: bytes) -> bytes:
        return await self._rpc.ask(name, topic, text, ANSWER_SECONDS_MAX)

    def _tell(self, line: str) -> None:
        """Log a line, unless it was the last one: rounds repeat."""
        if line != self._told:
            self._told = line
            logger.warning("%s", line)

    # At every node

    async def _answer_report(self, asker: str, text: bytes) -> bytes:
        return msgspec.msgpack.encode(self._own_report())

    async def _hear_verdict(self, asker: str, text: bytes) -> bytes:
        verdict = _verdict.decode(text)
        # Obey after the answer is sent: it would be lost with the links.
        asyncio.get_running_loop().call_soon(self._obey, verdict)
        return b""

    def _obey(self, verdict: Verdict) -> None:
        own = self._own_report()
        if own is not None and has_lost(own.view, verdict):
            logger.error(
                "autoheal: node %s is on a losing side of the partition. It gives way to %s",
                self._me, ", ".join(verdict.winners),
            )  # fmt: skip
            self._give_way(verdict.winners)
