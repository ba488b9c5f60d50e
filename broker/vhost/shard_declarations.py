"""Declares the shards that this node lacks: when it starts, and when policies or exchanges change.

Every node of a cluster does so for itself, so that a new node gets its shards. A change takes
three submissions, each planned when the previous one is applied: bindings of an earlier policy are
deleted, then queues are declared, then bound. Declarations that the cluster or the disk does not
accept now are tried again.
"""

import logging
from collections import deque
from collections.abc import Mapping

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import Declaration, Policy, Submit
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.sharding import (
    Sharding,
    missing_bindings,
    missing_queues,
    obsolete_bindings,
    sharding_of,
    sharding_of_policy,
)
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.metadata.metadata import MetadataError

TRY_AGAIN_MS = 1_000
STEPS = 3

logger = logging.getLogger("leveret.sharding")


class ShardDeclarations:
    """The shards of one run of a node. node: its name. submit: has declarations applied."""

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        node: str,
        submit: Submit,
        clock: Clock,
        turns: Turns,
    ) -> None:
        self._vhosts = vhosts
        self._node = node
        self._submit = submit
        self._clock = clock
        self._turns = turns
        self._is_started = False
        self._changes: deque[tuple[str, str, Sharding | None]] = deque()
        self._step = 0
        self._is_failing = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Declare missing shards from now on: the declared objects are known."""
        self._is_started = True
        for vhost in self._vhosts.values():
            for exchange in vhost.exchanges.values():
                if sharding_of(exchange) is not None:
                    self._add(vhost.name, exchange.name, None)

    def stop(self) -> None:
        """Stop declaring."""
        self._is_started = False
        self._changes.clear()
        if self._timer is not None:
            self._timer.cancel()

    def exchange_changed(self, vhost: str, exchange: Exchange, policy: Policy | None) -> None:
        """An exchange is new, or its policy is no longer this one."""
        before = sharding_of_policy(policy)
        if self._is_started and exchange.name and sharding_of(exchange) != before:
            self._add(vhost, exchange.name, before)

    def _add(self, vhost: str, exchange: str, before: Sharding | None) -> None:
        self._changes.append((vhost, exchange, before))
        if len(self._changes) == 1:
            self._begin()

    def _begin(self) -> None:
        # Later, since the change of the policy or exchange is being applied now.
        self._step = 0
        self._turns.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Submit the next declarations of the first change, or begin the next change."""
        while self._changes and self._step < STEPS:
            declarations = self._planned()
            self._step += 1
            if declarations:
                self._declare(declarations)
                return
        if self._changes:
            self._changes.popleft()
            self._is_failing = False
        if self._changes:
            self._begin()

    def _planned(self) -> list[Declaration]:
        vhost_name, exchange_name, before = self._changes[0]
        vhost = self._vhosts.get(vhost_name)
        exchange = None if vhost is None else vhost.exchanges.get(exchange_name)
        if vhost is None or exchange is None:
            return []
        if self._step == 0:
            return obsolete_bindings(vhost, exchange, self._node, before)
        if self._step == 1:
            return missing_queues(vhost, exchange, self._node)
        return missing_bindings(vhost, exchange, self._node)

    def _declare(self, declarations: list[Declaration]) -> None:
        answer: Answer[None] = Answer()
        answer.when_given(lambda: self._answered(answer))
        try:
            self._submit(*declarations, answer=answer)
        except (Fault, MetadataError) as error:
            self._failed(error)

    def _answered(self, answer: Answer[None]) -> None:
        try:
            answer.result()
        except (Fault, MetadataError) as error:
            self._failed(error)
        else:
            self._turns.call_soon(self._go_on)

    def _failed(self, error: Exception) -> None:
        """Try the first change again, from its first step."""
        if not self._changes:
            return
        if not self._is_failing:
            self._is_failing = True
            vhost, exchange, _ = self._changes[0]
            logger.error(
                "failed to declare the shards of exchange %r in vhost %r; retrying every second: "
                "%s", exchange, vhost, error,
            )  # fmt: skip
        self._timer = self._clock.call_later_ms(TRY_AGAIN_MS, self._begin)
