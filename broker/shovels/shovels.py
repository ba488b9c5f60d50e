"""All shovels of a node: one for each parameter of the component `shovel` that is to run here.

A shovel follows its parameter: it starts when that is set, starts anew when it is changed, and ends
when it is deleted, or its virtual host. Changes of one are applied one after the other, so that no
two shovels of one name run at a time. In a cluster each shovel runs on one of the nodes that run,
which all of them choose alike (`chosen`).
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from leveret.broker.clock import Clock
from leveret.broker.declarations import DeleteParameter, Submit
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import Parameters
from leveret.broker.policies.shovel_parameter import parse_shovel
from leveret.broker.shovels.shovel import Connect, Measure, Shovel
from leveret.broker.shovels.status import ShovelStatus

COMPONENT: Final = "shovel"
ACTING_USER: Final = "rmq-shovel"
"""Who deletes the parameter of a shovel that has moved all, as in RabbitMQ."""

logger = logging.getLogger("leveret.shovel")
Place = tuple[str, str]
"""A shovel's vhost and name."""


def chosen(place: Place, nodes: Iterable[str]) -> str:
    """The node on which a shovel runs: each node that goes moves no other shovels than its own."""

    def weight(node: str) -> bytes:
        return hashlib.sha256("\0".join((*place, node)).encode()).digest()

    return max(nodes, key=weight)


class Shovels:
    """See the module. node: the name of this one. running: the nodes of the cluster that run."""

    def __init__(
        self,
        node: str,
        parameters: Parameters,
        connect: Connect,
        measure: Measure,
        clock: Clock,
        cluster_name: Callable[[], str],
        submit: Submit,
    ) -> None:
        self.running: tuple[str, ...] = (node,)
        self._node = node
        self._parameters = parameters
        self._connect = connect
        self._measure = measure
        self._clock = clock
        self._cluster_name = cluster_name
        self._submit = submit
        self._shovels: dict[Place, Shovel] = {}
        # Those that are to be brought where their parameters say, and the tasks that do it.
        self._changed: set[Place] = set()
        self._following: dict[Place, asyncio.Task[None]] = {}
        self._has_started = False

    @property
    def statuses(self) -> list[ShovelStatus]:
        """Of all shovels that run on this node."""
        return [shovel.status for shovel in self._shovels.values()]

    def start(self) -> None:
        """Clients are accepted: start what is declared."""
        self._has_started = True
        self._follow(self._places())

    async def stop(self) -> None:
        """End all shovels."""
        self._has_started = False
        following = tuple(self._following.values())
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        shovels, self._shovels = self._shovels, {}
        await asyncio.gather(*(shovel.stop() for shovel in shovels.values()))

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter, which may be that of a shovel, was set or deleted."""
        if component == COMPONENT:
            self._follow(((vhost, name),))

    def vhost_deleted(self, vhost: str) -> None:
        """All parameters of a vhost are gone."""
        self._follow([place for place in self._shovels if place[0] == vhost])

    def nodes_changed(self, running: tuple[str, ...]) -> None:
        """Other nodes of the cluster run: some shovels may have to move."""
        self.running = running
        self._follow({*self._places(), *self._shovels}, keeps_unchanged=True)

    def restart(self, vhost: str, name: str) -> bool:
        """Start a shovel anew; whether there is one on this node."""
        if (vhost, name) not in self._shovels:
            return False
        self._follow(((vhost, name),))
        return True

    def _places(self) -> list[Place]:
        return [(vhost, name) for vhost, name, _ in self._parameters.of(COMPONENT)]

    def _follow(self, places: Iterable[Place], *, keeps_unchanged: bool = False) -> None:
        """Have these shovels run as their parameters say.

        keeps_unchanged: those that run here and are to go on running here are left alone.
        """
        if not self._has_started:
            return
        for place in places:
            if keeps_unchanged and place in self._shovels and self._is_here(place):
                continue
            self._changed.add(place)
            if place not in self._following:
                task = asyncio.get_running_loop().create_task(self._follow_one(place))
                self._following[place] = task

    def _is_here(self, place: Place) -> bool:
        return chosen(place, self.running) == self._node

    async def _follow_one(self, place: Place) -> None:
        # The rest of the present change comes first: a parameter that is set may be set again.
        await asyncio.sleep(0)
        while place in self._changed:
            self._changed.remove(place)
            before = self._shovels.pop(place, None)
            if before is not None:
                await before.stop()
            value = self._parameters.get(COMPONENT, *place)
            if value is not None and self._is_here(place):
                self._begin(place, value)
        del self._following[place]

    def _begin(self, place: Place, value: Any) -> None:
        vhost, name = place
        try:
            definition = parse_shovel(name, value)
        except ParameterError as error:
            logger.error("shovel '%s' in vhost '%s' cannot run: %s", name, vhost, error)
            return
        shovel = Shovel(
            name, vhost, definition, self._connect, self._measure, self._clock, self._cluster_name,
            self._moved_all,
        )  # fmt: skip
        self._shovels[place] = shovel
        shovel.start()

    def _moved_all(self, shovel: Shovel) -> None:
        """A shovel has moved all that it was to move: its parameter goes."""
        it = DeleteParameter(COMPONENT, shovel.vhost, shovel.name, acting_user=ACTING_USER)
        answer = self._submit(it)

        def answered() -> None:
            try:
                answer.result()
            except Exception as error:
                logger.error("%s has ended, and its parameter cannot be deleted: %s", shovel, error)

        answer.when_given(answered)
