"""Finds consequential deletions: of auto-delete exchanges that lose their last binding."""

from collections.abc import Generator, Iterable, Mapping

from leveret.broker.declarations.values import DeleteBinding, DeleteExchange, DeleteQueue
from leveret.broker.registry.objects.bindings import find_binding
from leveret.broker.runtime.names import NODE_ITSELF
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.virtual_host import VirtualHost

Removal = DeleteExchange | DeleteQueue | DeleteBinding

LOOKED_AT_ONCE = 200
"""Bindings examined in one step; each is a unit of work (broker/runtime/turns.py)."""


def finding_consequences(
    vhosts: Mapping[str, VirtualHost], removals: Iterable[Removal]
) -> Generator[int, None, list[DeleteExchange]]:
    """Find the deletions of auto-delete exchanges that lose their last binding by removals.

    Yields the work of each step (broker/runtime/long_work.py), and returns the deletions.
    """
    gone: set[Exchange] = set()
    lost: list[tuple[Iterable[Binding], str, str]] = []
    for it in removals:
        vhost = vhosts[it.vhost]
        if isinstance(it, DeleteExchange) and it.name in vhost.exchanges:
            gone.add(vhost.exchanges[it.name])
        acting_user = NODE_ITSELF if isinstance(it, DeleteQueue) else it.acting_user
        lost.append((_removed(vhost, it), it.vhost, acting_user))
    found: list[DeleteExchange] = []
    left: dict[Exchange, int] = {}
    seen: set[Binding] = set()
    looked = 0
    for bindings, vhost_name, acting_user in lost:
        for binding in bindings:
            looked += 1
            if looked % LOOKED_AT_ONCE == 0:
                yield LOOKED_AT_ONCE
            source = binding.source
            if not source.auto_delete or source in gone or binding in seen:
                continue
            seen.add(binding)
            left[source] = left.get(source, len(source.bindings)) - 1
            if not left[source]:
                gone.add(source)
                found.append(DeleteExchange(vhost_name, source.name, acting_user=acting_user))
                lost.append((list(source.incoming.values()), vhost_name, acting_user))
    return found


def _removed(vhost: VirtualHost, it: Removal) -> list[Binding]:
    """The existing bindings that the declaration removes."""
    if isinstance(it, DeleteQueue):
        queue = vhost.queues.get(it.name)
        return [] if queue is None else list(queue.bindings.values())
    if isinstance(it, DeleteExchange):
        exchange = vhost.exchanges.get(it.name)
        return [] if exchange is None else list(exchange.incoming.values())
    binding = find_binding(vhost, it)
    return [] if binding is None else [binding]
