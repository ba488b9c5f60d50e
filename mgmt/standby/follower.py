"""Follows the definitions of an upstream periodically, on one node of the standby's cluster.

Each node has a follower. Only the follower on the chosen node, which all nodes determine alike
(transfers/placement_by_hash.py), syncs; when that node stops, another one syncs at its next
interval. The follower reads the setting and the state before each sync; a change of either wakes
it.

Nothing needs to be compared if the ETag of the upstream shows that its definitions are those of the
last complete sync, and nothing was declared here since. A failed sync is tried again at the next
interval; operators see the failure, and the standby's definitions are not affected.

Two clusters that follow each other would each delete the other's new objects. So a follower
publishes which clusters it follows, and asks the upstream which clusters the upstream follows. If
this cluster is one of them, nothing is changed.

1. A cluster publishes which clusters it follows before it asks the upstream: of two that begin to
  follow each other at the same time, at least one notices before it has changed anything.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.moving.transfers.placement_by_hash import chosen
from leveret.broker.policies.schema_replication import (
    COMPONENT,
    DISABLED,
    FOLLOWING,
    NO_STATE,
    PROMOTED,
    ReplicationState,
    UpstreamSetting,
    is_standby,
    state_of,
    upstream_of,
)
from leveret.mgmt.definitions.exporting import export
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import GiveWay
from leveret.mgmt.standby.applying import ApplyError, Applying, ApplyOutcome, Superseded
from leveret.mgmt.standby.comparing import Difference, difference
from leveret.mgmt.standby.safety import deletes_much, digest_of, held_reason
from leveret.mgmt.standby.upstream import (
    StandbyUpstream,
    UpstreamError,
    cluster_id_of,
    definitions_of,
)

OFF, WAITING, SYNCING, HELD, FAILED = "off", "waiting", "syncing", "held", "failed"
"""States of a follower: it has no upstream; it has not synced yet; its last sync was complete, is
held, or has failed."""
FOLLOWS_MAX = 16
"""The number of clusters beyond an upstream that are reported; a larger circle is not found."""
CIRCLE = (
    "the upstream follows this cluster, directly or through others, and each would delete what is "
    "new at the other: nothing is changed. Promote the cluster that clients use "
    "(promote_warm_standby), or clear its upstream (clear_schema_replication)"
)
LISTED_MAX = 100
"""The limits of shown kept items and problems; there may be very many."""

logger = logging.getLogger("leveret.standby")


@dataclass
class SyncCounts:
    """Syncs of this node since its start. changes: items added, changed and deleted by them."""

    complete: int = 0
    unchanged: int = 0
    failed: int = 0
    held: int = 0
    changes: int = 0
    last_seconds: float = 0.0
    last_complete_at_s: float = 0.0


@dataclass
class Followed:
    """The known facts about an upstream under one state of the replication.

    etag, durable_count: the ETag of the last sync without differences, and the number of
    declarations here before it; the etag is empty if the next sync has to compare. held_digest: the
    digest of the upstream's objects that an operator may accept. cluster_id: the upstream's, empty
    if it is not known. beyond: ids of clusters that the upstream follows.
    """

    state: ReplicationState
    upstream: StandbyUpstream | None = None
    status: str = WAITING
    reason: str = ""
    endpoint: str = ""
    since_s: float = field(default_factory=time)
    etag: str = ""
    durable_count: int = -1
    held_digest: str = ""
    cluster_id: str = ""
    beyond: tuple[str, ...] = ()
    outcome: ApplyOutcome = field(default_factory=ApplyOutcome)


class Follower:
    """The follower of one node. running: returns the running nodes of the cluster."""

    def __init__(
        self, node: NodeFacade, give_way: GiveWay, running: Callable[[], tuple[str, ...]]
    ) -> None:
        self.counts = SyncCounts()
        self._node = node
        self._parameters = node.parameters
        self._give_way = give_way
        self._running = running
        self._followed = Followed(NO_STATE)
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # For operators

    @property
    def chosen_node(self) -> str:
        """The following node."""
        return chosen((COMPONENT,), self._running())

    @property
    def is_standby(self) -> bool:
        """Whether the cluster is a standby."""
        return is_standby(self._parameters)

    @property
    def held_digest(self) -> str:
        """The digest of the upstream that an operator may accept; empty if no sync is held."""
        return self._followed.held_digest

    @property
    def outcome(self) -> ApplyOutcome:
        """The items that the last sync has kept, and its problems."""
        return self._followed.outcome

    @property
    def status(self) -> str:
        """One word for the follower's state."""
        state = state_of(self._parameters)
        if state.state in (DISABLED, PROMOTED, ""):
            return state.state or OFF
        is_current = state.number == self._followed.state.number
        return self._followed.status if is_current else WAITING

    def shown(self) -> dict[str, Any]:
        """The state of the replication as JSON, on the node that follows."""
        followed, status = self._followed, self.status
        setting, outcome = upstream_of(self._parameters), followed.outcome
        is_known = status in (SYNCING, HELD, FAILED)
        return {
            "node": self._node.name,
            "operating_mode": "downstream" if self.is_standby else "upstream",
            "state": status,
            "upstream": None if setting is None else setting.shown(),
            "reason": followed.reason if is_known else "",
            "since": followed.since_s if is_known else None,
            "endpoint": followed.endpoint if is_known else "",
            "follows": self._follows(),
            "kept": outcome.kept[:LISTED_MAX] if is_known else [],
            "kept_count": len(outcome.kept) if is_known else 0,
            "problems": outcome.problems[:LISTED_MAX] if is_known else [],
            "problems_count": len(outcome.problems) if is_known else 0,
            "syncs": {
                "complete": self.counts.complete,
                "unchanged": self.counts.unchanged,
                "failed": self.counts.failed,
                "held": self.counts.held,
                "changes": self.counts.changes,
                "last_duration": self.counts.last_seconds,
                "last_complete_at": self.counts.last_complete_at_s or None,
            },
        }

    def _follows(self) -> list[str]:
        """The ids of the clusters that this one follows: the upstream's, and of those beyond it."""
        followed = self._followed
        if followed.state != state_of(self._parameters) or not followed.cluster_id:
            return []
        return [followed.cluster_id, *followed.beyond]

    # Running

    def start(self) -> None:
        """Follow, whenever there is something to follow."""
        self._node.listen_for_replication(self._woken.set)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop, even during a sync."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            state, setting = state_of(self._parameters), upstream_of(self._parameters)
            seconds = None
            if state.state == FOLLOWING and setting is not None:
                seconds = setting.interval_s
                if self.chosen_node == self._node.name:
                    seconds = max(seconds, await self._sync_timed(state, setting))
            try:
                await asyncio.wait_for(self._woken.wait(), seconds)
            except TimeoutError:
                continue

    async def _sync_timed(self, state: ReplicationState, setting: UpstreamSetting) -> float:
        """Sync; return the seconds it took. A failure is noted, and the sync is retried later."""
        if state != self._followed.state:
            self._followed = Followed(state, StandbyUpstream(setting, self._give_way))
        began = monotonic()
        try:
            await self._sync(self._followed, setting)
        except Superseded:
            logger.info("a sync was ended because the schema replication was changed")
        except (UpstreamError, ApplyError) as error:
            self._failed(str(error))
        except Exception as error:
            # Otherwise the standby would stop following, and no operator would notice.
            logger.exception("a sync of definitions failed")
            self._failed(f"an error of this node: {error!r} (see its log)")
        self.counts.last_seconds = monotonic() - began
        return self.counts.last_seconds

    def _failed(self, reason: str) -> None:
        self.counts.failed += 1
        self._followed.etag = ""
        self._note(FAILED, reason)

    def _note(self, status: str, reason: str = "") -> None:
        """Note the result of a sync, and log it unless it has not changed."""
        followed = self._followed
        if (status, reason) == (followed.status, followed.reason):
            return
        if status == FAILED:
            logger.error("the definitions of the upstream are not followed: %s", reason)
        elif status == HELD:
            logger.warning("the definitions of the upstream are held: %s", reason)
        else:
            logger.info("the definitions of the upstream are followed, at %s", followed.endpoint)
        followed.status, followed.reason, followed.since_s = status, reason, time()

    async def _sync(self, followed: Followed, setting: UpstreamSetting) -> None:
        """Compare, and declare the differences. Raises UpstreamError, ApplyError and Superseded."""
        durable_count = self._node.durable_count
        is_as_left = followed.durable_count == durable_count
        assert followed.upstream is not None, "it is made with the setting"
        fetched = await followed.upstream.fetch(followed.etag if is_as_left else "")
        followed.endpoint = fetched.endpoint
        if fetched.content is None:
            await self._refuse_circle(followed)
            self.counts.unchanged += 1
            return
        wanted = await definitions_of(fetched.content, self._give_way)
        followed.cluster_id = cluster_id_of(wanted)
        await self._refuse_circle(followed)
        own = await export(self._node, self._give_way)
        lists = {kind: wanted.items(kind) for kind in wanted.kinds()}
        found = await difference(own, lists, setting, self._give_way)
        if await self._is_held(followed, found):
            return
        outcome = await Applying(
            self._node, followed.state, fetched.endpoint, self._give_way
        ).apply(found)
        followed.outcome = outcome
        followed.etag = fetched.etag if found.is_empty else ""
        followed.durable_count = durable_count
        self._synced(outcome)

    async def _refuse_circle(self, followed: Followed) -> None:
        """Raise UpstreamError if the upstream follows this cluster."""
        assert followed.upstream is not None, "it is made with the setting"
        beyond = await followed.upstream.follows(followed.endpoint)
        own = self._node.cluster_id
        is_circle = bool(own) and own in beyond
        if is_circle:
            # Otherwise the list would grow by a round of the circle with each sync.
            beyond = beyond[: beyond.index(own) + 1]
        followed.beyond = beyond[:FOLLOWS_MAX]
        if is_circle:
            raise UpstreamError(CIRCLE)

    async def _is_held(self, followed: Followed, found: Difference) -> bool:
        followed.held_digest = ""
        if not deletes_much(found):
            return False
        digest = await digest_of(found, self._give_way)
        if digest == followed.state.accepted:
            return False
        followed.held_digest = digest
        followed.etag = ""
        self.counts.held += 1
        self._note(HELD, held_reason(found))
        return True

    def _synced(self, outcome: ApplyOutcome) -> None:
        self._note(SYNCING)
        counts = self.counts
        counts.complete += 1
        counts.changes += outcome.changes
        counts.last_complete_at_s = time()
        if outcome.changes:
            text = (
                f"Followed the definitions of {self._followed.endpoint}: {outcome.added} added, "
                f"{outcome.changed} changed, {outcome.deleted} deleted"
            )
            detail = {
                "added": outcome.added, "changed": outcome.changed, "deleted": outcome.deleted
            }  # fmt: skip
            act = AuditedChange("definitions.followed", "definitions", "", text, detail=detail)
            self._node.note(THE_NODE, act)
