"""Applying policies: to queues and exchanges as they are declared, and to all when policies change.

The vhost asks for each new queue and exchange. After a change all of the vhost's are looked at, in
slices where there are many (`policies.Applier`).
"""

import asyncio
from collections.abc import Iterator

from broker.binding import Exchange
from broker.parameters import OPERATOR_POLICY, POLICY
from broker.policies import EXCHANGE_KINDS, QUEUE_KINDS, Applier, effective_options, merged
from broker.queues.actor import Queue
from broker.services import Services

SLICE = 500
"""Queues in one slice: two milliseconds or so."""
ALTERNATE = "alternate-exchange"


class Policing:
    """The policies of a node, at work."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._policies = services.policies
        self.applier = Applier(asyncio.get_running_loop().call_soon, SLICE)
        for component in (POLICY, OPERATOR_POLICY):
            services.parameters.listen(component, lambda vhost, _name: self._changed(vhost))

    def _changed(self, vhost: str) -> None:
        self.applier.start(self._apply_to_all(vhost))

    def _apply_to_all(self, name: str) -> Iterator[None]:
        vhost = self._services.vhosts.get(name)
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

    def apply_to_queue(self, vhost: str, queue: Queue) -> None:
        """Give a queue the options that its policies ask for."""
        policy = self._policies.match(POLICY, vhost, queue.name, QUEUE_KINDS)
        operator_policy = self._policies.match(OPERATOR_POLICY, vhost, queue.name, QUEUE_KINDS)
        if policy is queue.policy and operator_policy is queue.operator_policy:
            return
        queue.policy, queue.operator_policy = policy, operator_policy
        queue.apply(effective_options(queue.declared, merged(policy, operator_policy)))

    def apply_to_exchange(self, vhost: str, exchange: Exchange) -> None:
        """Give an exchange the alternate exchange that its policy asks for, unless it has one."""
        exchange.policy = self._policies.match(POLICY, vhost, exchange.name, EXCHANGE_KINDS)
        declared = exchange.arguments.get(ALTERNATE)
        if declared is None:
            definition = {} if exchange.policy is None else exchange.policy.definition
            exchange.alternate_name = definition.get(ALTERNATE)
