"""Applies policies to new queues and exchanges, and to all of a vhost when its policies change.

The vhost calls it for each new queue and exchange. After a change all queues and exchanges of the
vhost are processed, in slices if there are many (`policy_table.Applier`).
"""

from collections.abc import Callable, Iterator, Mapping

from leveret.broker.declarations.values import Policy
from leveret.broker.exchanges.message_deduplication import MessageDeduplication
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import (
    Applier,
    PolicyTable,
    effective_options,
    merged,
)
from leveret.broker.queues.contract.deduplication_arguments import CACHE_SIZE, CACHE_TTL
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE, SUCCESSOR_PREFIX, is_delaying
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.seen_identifiers import SeenIdentifiers
from leveret.broker.vhost.virtual_host import VirtualHost

SLICE = 150
"""Queues in one slice: two to six milliseconds, if messages expire or exceed limits."""
ALTERNATE = "alternate-exchange"


def _ignore(_vhost: str, _exchange: Exchange, _before: Policy | None) -> None:
    """Sharding does not follow the policies of this node."""


def _ignore_policy(_kind: str, _vhost: str, _name: str) -> None:
    """Federation does not follow the policies of this node."""


class Policing:
    """Applies the policies of a node.

    exchange_changed: called with a vhost's name, one of its exchanges and its previous policy, when
    its policy has changed. policy_changed: called with `exchange` or `queue`, a vhost and a name,
    when the policy of this object has changed.
    """

    def __init__(
        self,
        policies: PolicyTable,
        vhosts: Mapping[str, VirtualHost],
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        """call_soon: the event loop's."""
        self._policies = policies
        self._vhosts = vhosts
        self.applier = Applier(call_soon, SLICE)
        self.exchange_changed: Callable[[str, Exchange, Policy | None], object] = _ignore
        self.policy_changed: Callable[[str, str, str], object] = _ignore_policy

    def policies_changed(self, vhost: str) -> None:
        """Apply the policies of a vhost to everything in it."""
        self.applier.start(self._apply_to_all(vhost))

    def _apply_to_all(self, name: str) -> Iterator[None]:
        vhost = self._vhosts.get(name)
        if vhost is None:
            return
        for exchange in tuple(vhost.exchanges.values()):
            self.apply_to_exchange(name, exchange)
            yield
        for queue in tuple(vhost.queues.values()):
            if not queue.is_deleted:
                self.apply_to_queue(name, queue)
            yield
        vhost.routes_changed()

    def apply_to_queue(self, vhost: str, queue: QueueClient) -> None:
        """Apply the policies' options to a queue."""
        if queue.name.startswith(SUCCESSOR_PREFIX) or is_delaying(queue.name):
            return
        policy = self._policies.of_queue(POLICY, vhost, queue.name, queue.kind)
        operator_policy = self._policies.of_queue(OPERATOR_POLICY, vhost, queue.name, queue.kind)
        if policy is queue.policy and operator_policy is queue.operator_policy:
            return
        queue.policy, queue.operator_policy = policy, operator_policy
        definition = merged(policy, operator_policy)
        queue.apply(effective_options(queue.declared, definition, queue.kind))
        self.policy_changed(QUEUE, vhost, queue.name)
        self._vhosts[vhost].kinds.of(queue.kind).policies_changed(vhost, queue)

    def apply_to_exchange(self, vhost: str, exchange: Exchange) -> None:
        """Set the alternate exchange from the policy, unless the arguments declare one, and the
        limits of identifiers.
        """
        before = exchange.policy
        exchange.policy = self._policies.of_exchange(POLICY, vhost, exchange.name)
        if exchange.policy is not before:
            self.exchange_changed(vhost, exchange, before)
            self.policy_changed(EXCHANGE, vhost, exchange.name)
        declared = exchange.arguments.get(ALTERNATE)
        if declared is None:
            definition = {} if exchange.policy is None else exchange.policy.definition
            exchange.alternate_name = definition.get(ALTERNATE)
        if isinstance(exchange.type, MessageDeduplication) and exchange.seen is not None:
            _configure(exchange.type, exchange.seen, exchange.policy)


def _configure(
    exchange_type: MessageDeduplication, seen: SeenIdentifiers, policy: Policy | None
) -> None:
    """x-message-deduplication: the limits of the policy, or else of the arguments."""
    definition = {} if policy is None else policy.definition
    seen.known.configure(
        definition.get(CACHE_SIZE, exchange_type.size),
        definition.get(CACHE_TTL, exchange_type.ttl_ms),
    )
