"""All federation links that run on a node.

A policy federates exchanges and queues: each has a link for each upstream that the policy asks for.
Links follow policies, the parameters of upstreams and sets, the name of the cluster, and
declarations and deletions. After a change, the subjects that it may affect are planned again, in
slices if there are many; only links whose definitions differ then restart. In a cluster all
nodes have the same plans, and each kind of links knows which run on this node (link_kind.py).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from leveret.broker.events.events import Events
from leveret.broker.moving.federation.link_definition import LinkDefinition, LinkPlace, Subject
from leveret.broker.moving.federation.link_events import link_removed
from leveret.broker.moving.federation.link_kind import FederationLink, LinkKind
from leveret.broker.moving.federation.status import EXCHANGE, LinkStatus
from leveret.broker.moving.federation.upstreams import is_federated, upstreams_of
from leveret.broker.moving.transfers.runs import RunningByPlace
from leveret.broker.policies.parameters import (
    CLUSTER_NAME,
    FEDERATION_UPSTREAM,
    FEDERATION_UPSTREAM_SET,
    GLOBAL,
    Parameters,
)

SLICE: Final = 50
"""Subjects that are planned in one turn of the event loop: about a millisecond."""

Plan = dict[LinkPlace, LinkDefinition]
NO_PLAN: Final[Plan] = {}

logger = logging.getLogger("leveret.federation")


class Federation:
    """The federation links of one node.

    node: the name of this node. running: the nodes of the cluster that run. cluster_name: returns
    the cluster's name.
    may_run: whether the links of a vhost may run now.
    """

    def __init__(
        self,
        node: str,
        parameters: Parameters,
        cluster_name: Callable[[], str],
        kinds: Sequence[LinkKind],
        events: Events,
        may_run: Callable[[str], bool] = lambda vhost: True,
    ) -> None:
        self.running: tuple[str, ...] = (node,)
        self._parameters = parameters
        self._cluster_name = cluster_name
        self._kinds = {one.kind: one for one in kinds}
        self._events = events
        self._may_run = may_run
        # The plans of all subjects that a policy federates, also those without upstreams.
        self._plans: dict[Subject, Plan] = {}
        self._changed: dict[Subject, None] = {}
        self._runs: RunningByPlace[LinkPlace, FederationLink] = RunningByPlace(
            self._make, self._stop
        )
        self._has_started = False

    # For operators

    @property
    def statuses(self) -> list[LinkStatus]:
        """The status of all links that run on this node."""
        return [link.status for link in self._runs.by_place.values()]

    def find(self, vhost: str, link_id: str) -> LinkPlace | None:
        """The link of this id that is to run on this node, also while it is being restarted."""
        for subject, plan in self._plans.items():
            for place in plan:
                if subject.vhost == vhost and place.link_id == link_id:
                    return place if self._definition_here(place) is not None else None
        return None

    def restart(self, place: LinkPlace) -> None:
        """Restart a link."""
        self._runs.follow((place,))

    # Starting and stopping

    def start(self) -> None:
        """Clients are accepted: start the declared links."""
        self._has_started = True
        self._runs.start()
        for kind in self._kinds.values():
            self._plan_again(Subject(kind.kind, *one) for one in kind.federated())

    async def stop(self) -> None:
        """End all links; their objects stay upstream."""
        self._has_started = False
        self._changed.clear()
        await self._runs.stop()

    # Changes

    def changed(self, kind: str, vhost: str, name: str) -> None:
        """An exchange or queue was declared, deleted or moved, or its policy changed."""
        if kind in self._kinds:
            self._plan_again((Subject(kind, vhost, name),))

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter was set or deleted: an upstream, a set of them, the cluster's name."""
        if component in (FEDERATION_UPSTREAM, FEDERATION_UPSTREAM_SET):
            self._plan_again([one for one in self._plans if one.vhost == vhost])
        elif (component, name) == (GLOBAL, CLUSTER_NAME):
            self._plan_again(self._plans)

    def vhost_deleted(self, vhost: str) -> None:
        """A vhost was deleted, with everything in it."""
        self._plan_again([one for one in self._plans if one.vhost == vhost])

    def nodes_changed(self, running: tuple[str, ...]) -> None:
        """The set of running nodes has changed: some links may have to move."""
        self.running = running
        self._plan_again(self._plans)

    def permissions_changed(self) -> None:
        """`may_run` has changed: start and stop the links that it affects."""
        self._plan_again(self._plans)

    # Planning

    def _plan_again(self, subjects: Iterable[Subject]) -> None:
        if not self._has_started:
            return
        is_planning = bool(self._changed)
        self._changed.update(dict.fromkeys(subjects))
        if self._changed and not is_planning:
            # Later, because the rest of the current change comes first.
            asyncio.get_running_loop().call_soon(self._plan_slice)

    def _plan_slice(self) -> None:
        for subject in list(self._changed)[:SLICE]:
            del self._changed[subject]
            self._follow(subject)
        if self._changed:
            asyncio.get_running_loop().call_soon(self._plan_slice)

    def _follow(self, subject: Subject) -> None:
        before = self._plans.pop(subject, NO_PLAN)
        plan = self._plan(subject)
        if plan is not None:
            self._plans[subject] = plan
        now = NO_PLAN if plan is None else plan
        self._runs.follow(
            place
            for place in {**before, **now}
            if before.get(place) != now.get(place) or self._is_misplaced(place)
        )

    def _is_misplaced(self, place: LinkPlace) -> bool:
        """Whether a link is to move here, or away from here."""
        return (place in self._runs.by_place) != (self._definition_here(place) is not None)

    def _plan(self, subject: Subject) -> Plan | None:
        """The links of a subject; None if no policy federates it."""
        kind, vhost, name = subject
        found = self._kinds[kind].find(vhost, name)
        if found is None or found.policy is None or not is_federated(found.policy.definition):
            return None
        upstreams, problems = upstreams_of(found.policy.definition, vhost, self._parameters)
        for problem in problems:
            logger.error("%s '%s' in vhost '%s' has no link: %s", kind, name, vhost, problem)
        plan: Plan = {}
        for upstream in upstreams:
            there = upstream.exchange if kind == EXCHANGE else upstream.queue
            place = LinkPlace(kind, vhost, name, upstream.name, there or name)
            definition = LinkDefinition(
                place, upstream, found.policy.name, self._cluster_name(), found
            )
            # A set may have a member twice: the first one counts.
            plan.setdefault(place, definition)
        return plan

    # Running

    def _definition(self, place: LinkPlace) -> LinkDefinition | None:
        plan = self._plans.get(Subject(place.kind, place.vhost, place.name), NO_PLAN)
        return plan.get(place)

    def _definition_here(self, place: LinkPlace) -> LinkDefinition | None:
        definition = self._definition(place) if self._may_run(place.vhost) else None
        if definition is None or not self._kinds[place.kind].is_here(definition, self.running):
            return None
        return definition

    def _make(self, place: LinkPlace) -> FederationLink | None:
        definition = self._definition_here(place)
        return None if definition is None else self._kinds[place.kind].make(definition)

    async def _stop(self, place: LinkPlace, link: FederationLink) -> None:
        await link.stop(is_removed=self._definition(place) != link.definition)
        link_removed(self._events, link.status)
