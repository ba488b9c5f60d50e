"""Keeps the bindings of a federated exchange at the upstream up to date.

Changes are sent in order, many without an answer and then one with an answer. So a large number of
bindings needs neither a long turn of the event loop nor an answer for each. Even if no answers are
awaited, one change in a while has an answer, so that the upstream's backlog does not delay later
methods beyond their time limit.
"""

import asyncio
from collections import deque
from typing import Final, NoReturn

from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.declaring import (
    ExchangeBinding,
    bind_exchange,
    bind_exchange_unanswered,
    unbind_exchange,
    unbind_exchange_unanswered,
)
from leveret.broker.moving.federation.upstream_bindings import (
    Bound,
    FederatedBinding,
    UpstreamBindings,
)
from leveret.broker.vhost.binding import Binding, Exchange

SLICE: Final = 100
"""Changes that are sent before an answer is awaited: about four milliseconds."""
UNANSWERED_MAX: Final = 1000
"""The most changes that are sent before an answer is awaited. An idle upstream takes half a second
for them; the link fails without an answer for a minute."""


class BindingPropagation:
    """Watches the bindings of the exchange from its creation to `stop`.

    channel: to the upstream. source: the exchange there. destination: the link's internal exchange
    there. waits: whether each slice awaits an answer; if not, a refusal is noticed later, when the
    channel is closed.
    """

    def __init__(
        self,
        exchange: Exchange,
        channel: ClientChannel,
        source: str,
        destination: str,
        wanted: UpstreamBindings,
        *,
        waits: bool,
    ) -> None:
        self._exchange = exchange
        self.channel = channel
        self._source = source
        self._destination = destination
        self._wanted = wanted
        self._waits = waits
        self._unanswered = 0
        self._is_changed = asyncio.Event()
        self._changes = deque((True, one) for one in exchange.bindings.values())
        exchange.watchers = (*exchange.watchers, self)

    def stop(self) -> None:
        """Stop watching the exchange."""
        watchers = self._exchange.watchers
        self._exchange.watchers = tuple(one for one in watchers if one is not self)

    # Called by the exchange (`BindingWatcher`)

    def binding_added(self, binding: Binding) -> None:
        """A new binding."""
        self._changed(True, binding)

    def binding_removed(self, binding: Binding) -> None:
        """A binding was removed."""
        self._changed(False, binding)

    def _changed(self, is_added: bool, binding: Binding) -> None:
        # The bindings of a deleted exchange end with the link.
        if not self._exchange.is_deleted:
            self._changes.append((is_added, binding))
            self._is_changed.set()

    # Sending

    async def follow(self) -> NoReturn:
        """Send changes as they come. Raises ChannelClosed and ConnectionClosed."""
        while True:
            await self._is_changed.wait()
            self._is_changed.clear()
            await self.send_all()

    async def send_all(self) -> None:
        """Send all changes so far; if answers are awaited, the upstream has applied them on return.

        Raises ChannelClosed and ConnectionClosed.
        """
        while self._changes:
            slice_size = min(SLICE, len(self._changes))
            decided = [self._decide(*self._changes.popleft()) for _ in range(slice_size)]
            await self._send([one for one in decided if one is not None])

    def _decide(self, is_added: bool, binding: Binding) -> tuple[bool, Bound] | None:
        destination = binding.destination_kind, binding.destination.name
        one = FederatedBinding(destination, binding.routing_key, binding.arguments)
        bound = self._wanted.added(one) if is_added else self._wanted.removed(one)
        return None if bound is None else (is_added, bound)

    async def _send(self, changes: list[tuple[bool, Bound]]) -> None:
        self._unanswered += len(changes)
        waits = self._waits or self._unanswered >= UNANSWERED_MAX
        last = changes.pop() if changes and waits else None
        for is_added, bound in changes:
            send = bind_exchange_unanswered if is_added else unbind_exchange_unanswered
            send(self.channel, self._there(bound))
        if last is None:
            await asyncio.sleep(0)
            return
        self._unanswered = 0
        is_added, bound = last
        call = bind_exchange if is_added else unbind_exchange
        await call(self.channel, self._there(bound))

    def _there(self, bound: Bound) -> ExchangeBinding:
        return ExchangeBinding(self._destination, self._source, *bound)
