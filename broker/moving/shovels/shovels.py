"""All shovels of a node: one for each parameter of the component `shovel` that is to run here, and
the static ones, which are in the configuration.

A shovel follows its parameter: it starts when that is set, restarts when it is changed, and ends
when it or its virtual host is deleted (transfers/runs.py). In a cluster each shovel runs on one of
the running nodes, which all nodes choose by the same hash (transfers/placement_by_hash.py); a
static one runs on one of the nodes whose configuration has it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from leveret.broker.declarations.values import DeleteParameter, Submit
from leveret.broker.events.events import Events
from leveret.broker.moving.shovels.shovel import Measure, Shovel
from leveret.broker.moving.shovels.shovel_events import shovel_removed
from leveret.broker.moving.shovels.status import ShovelStatus
from leveret.broker.moving.transfers.attempts import Connect
from leveret.broker.moving.transfers.placement_by_hash import chosen
from leveret.broker.moving.transfers.runs import RunningByPlace
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import Parameters
from leveret.broker.policies.shovel_parameter import ShovelDefinition, parse_shovel
from leveret.broker.runtime.clock import Clock
from leveret.broker.services.clustering import Clustering

COMPONENT: Final = "shovel"
ACTING_USER: Final = "rmq-shovel"
"""The user that deletes the parameter of a finished shovel, as in RabbitMQ."""

logger = logging.getLogger("leveret.shovel")
Place = tuple[str | None, str]
"""A shovel's vhost and name. A static shovel has no vhost."""


class Shovels:
    """The shovels that run on this node.

    node: the name of this node. static: the static shovels of its configuration. may_run: whether
    the shovels of a vhost may run now. running: the nodes of the cluster that run.
    """

    def __init__(
        self,
        node: str,
        parameters: Parameters,
        connect: Connect,
        measure: Measure,
        clock: Clock,
        cluster_name: Callable[[], str],
        submit: Submit,
        events: Events,
        static: Mapping[str, ShovelDefinition],
        may_run: Callable[[str], bool] = lambda vhost: True,
    ) -> None:
        self.running: tuple[str, ...] = (node,)
        self._node = node
        self._parameters = parameters
        self._connect = connect
        self._measure = measure
        self._clock = clock
        self._cluster_name = cluster_name
        self._submit = submit
        self._events = events
        self._static = static
        self._may_run = may_run
        self._others_with: Callable[[str], Iterable[str]] = lambda name: ()
        self._runs: RunningByPlace[Place, Shovel] = RunningByPlace(self._make, self._end)

    @property
    def statuses(self) -> list[ShovelStatus]:
        """The status of all shovels that run on this node."""
        return [shovel.status for shovel in self._runs.by_place.values()]

    def take_part_in(self, clustering: Clustering) -> None:
        """The node belongs to a cluster: share the shovels with the other nodes."""
        clustering.tell_static_shovels(tuple(self._static))
        clustering.running_changed = self.nodes_changed
        self._others_with = clustering.others_with_static_shovel

    def start(self) -> None:
        """Clients are accepted: start the declared shovels."""
        self._runs.start()
        self._runs.follow(self._places())

    async def stop(self) -> None:
        """End all shovels."""
        await self._runs.stop()

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter, which may be that of a shovel, was set or deleted."""
        if component == COMPONENT:
            self._runs.follow(((vhost, name),))

    def vhost_deleted(self, vhost: str) -> None:
        """A vhost was deleted, with all its parameters."""
        self._runs.follow([place for place in self._runs.by_place if place[0] == vhost])

    def nodes_changed(self, running: tuple[str, ...]) -> None:
        """The running nodes, or their static shovels, have changed: shovels may have to move."""
        self.running = running
        runs = self._runs.by_place
        # Shovels that run here and stay here are left alone.
        self._runs.follow(
            place
            for place in {*self._places(), *runs}
            if not (place in runs and self._is_here(place))
        )

    def permissions_changed(self) -> None:
        """`may_run` has changed: start and stop the shovels that it affects."""
        runs = self._runs.by_place
        self._runs.follow(
            place
            for place in {*self._places(), *runs}
            if place[0] is not None and (place in runs) != self._may_run(place[0])
        )

    def restart(self, vhost: str, name: str) -> bool:
        """Restart a shovel; whether one is to run on this node."""
        has_it = self._parameters.get(COMPONENT, vhost, name) is not None
        if not (has_it and self._is_here((vhost, name))):
            return False
        self._runs.follow(((vhost, name),))
        return True

    def _places(self) -> list[Place]:
        dynamic = ((vhost, name) for vhost, name, _ in self._parameters.of(COMPONENT))
        return [*dynamic, *((None, name) for name in self._static)]

    def _is_here(self, place: Place) -> bool:
        vhost, name = place
        if vhost is not None:
            return chosen((vhost, name), self.running) == self._node
        others = frozenset(self._others_with(name))
        having = [node for node in self.running if node in others]
        return chosen(("", name), (self._node, *having)) == self._node

    def _make(self, place: Place) -> Shovel | None:
        """The shovel that is to run here, if there is one."""
        vhost, name = place
        definition = self._definition(vhost, name) if self._is_here(place) else None
        if definition is None:
            return None
        return Shovel(
            name, vhost, definition, self._connect, self._measure, self._clock, self._cluster_name,
            self._events, self._moved_all,
        )  # fmt: skip

    def _definition(self, vhost: str | None, name: str) -> ShovelDefinition | None:
        """The definition of a shovel; None if there is no such shovel, it may not run, or its
        parameter is wrong.
        """
        if vhost is None:
            return self._static.get(name)
        value = self._parameters.get(COMPONENT, vhost, name) if self._may_run(vhost) else None
        try:
            return None if value is None else parse_shovel(name, value)
        except ParameterError as error:
            logger.error("shovel '%s' in vhost '%s' cannot run: %s", name, vhost, error)
            return None

    async def _end(self, place: Place, shovel: Shovel) -> None:
        await shovel.stop()
        shovel_removed(self._events, shovel.status)

    def _moved_all(self, shovel: Shovel) -> None:
        """A shovel has moved all its messages: delete its parameter."""
        if shovel.vhost is None:
            return
        it = DeleteParameter(COMPONENT, shovel.vhost, shovel.name, acting_user=ACTING_USER)
        answer = self._submit(it)

        def answered() -> None:
            try:
                answer.result()
            except Exception as error:
                logger.error("%s has ended, and its parameter cannot be deleted: %s", shovel, error)

        answer.when_given(answered)
