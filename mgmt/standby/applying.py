"""Declares the differences: additions and changes in their order, then deletions in theirs.

This is done in slices of items of one kind, between which the node does its other work. Each slice
requires the state of the replication under which the difference was found, so a promotion between
two slices, on any node of the cluster, ends the sync (SR1 of policies/schema_replication.py). A
sync may end at any place: the next one finds the remaining differences.

An item that cannot be declared here, such as a queue of a type that this node does not have, is a
problem of this item alone: if a slice is refused, its items are tried one by one.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.requester import DEFINITIONS, Requester
from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    DeleteUserLimits,
    PutUserLimits,
    PutVhostLimits,
    RequireParameter,
)
from leveret.broker.policies.limits import OF_USERS, OF_VHOSTS, check_limits
from leveret.broker.policies.parameters import (
    DEFAULT_QUEUE_TYPE,
    NO_VHOST,
    UNROUTABLE_PUBLISHES,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from leveret.broker.policies.schema_replication import (
    COMPONENT,
    STATE,
    ReplicationState,
    state_of,
)
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.mgmt.definitions.checking import Checker, reason_of
from leveret.mgmt.definitions.contents import DefinitionLists, Item
from leveret.mgmt.definitions.declaring import ItemDeclarations
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import GiveWay
from leveret.mgmt.standby.comparing import (
    NOT_TOLD,
    ComparedItem,
    Difference,
    Key,
    described,
    vhost_form,
)
from leveret.mgmt.standby.deleting import Deletions
from leveret.storage.metadata.metadata import MetadataError, MetadataFull

SLICE = 25
"""Items in one transaction of the metadata: about two milliseconds of work."""
REFUSALS = (Fault, ValueError, LookupError, MetadataError, re.error)
"""The errors of refused declarations; in a cluster most are MetadataError."""
PROBLEMS_MAX = 1000
"""With more problems than this a sync is abandoned: there must be another cause."""
ACTING_USER = "rmq-schema-replication"
VHOST_METADATA_PARAMETERS = (
    ("default_queue_type", DEFAULT_QUEUE_TYPE), ("unroutable_publishes", UNROUTABLE_PUBLISHES)
)  # fmt: skip
"""The fields of a vhost's form that are parameters here, with the names of these."""
_PLACE = re.compile(r"(\w+)\[(\d+)\](.*)", re.DOTALL)

Do = Callable[[Sequence[ComparedItem]], Awaitable[None]]


class Superseded(Exception):
    """The state of the replication has changed: this sync must declare nothing more."""


class ApplyError(Exception):
    """The node accepts no declarations now; the text has the reason."""


@dataclass
class ApplyOutcome:
    """The result of a sync. kept: items that are not deleted yet. problems: items that cannot be
    declared here; both with their reasons.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    kept: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)

    @property
    def changes(self) -> int:
        """The number of items that were added, changed or deleted."""
        return self.added + self.changed + self.deleted


class Applying:
    """One sync of a broker. state: the state under which the difference was found."""

    def __init__(
        self, node: NodeFacade, state: ReplicationState, endpoint: str, give_way: GiveWay
    ) -> None:
        self.outcome = ApplyOutcome()
        self._kept_names: set[tuple[str, Key]] = set()
        self._node = node
        self._state = state
        self._requirement = RequireParameter(COMPONENT, NO_VHOST, STATE, state.to_json())
        self._requester = Requester(ACTING_USER, endpoint, DEFINITIONS)
        self._give_way = give_way
        self._deletions = Deletions(node)
        self._items = ItemDeclarations(node, ACTING_USER)

    async def apply(self, difference: Difference) -> ApplyOutcome:
        """Declare it; all of it is on disk afterwards. Raises Superseded and ApplyError."""
        wanted = await self._valid(difference.puts)
        names = {(one.kind, one.key) for one in wanted}
        replaced = [one for one in difference.replaced if (one.kind, one.key) in names]
        await self._in_slices(replaced, self._delete)
        self.outcome.deleted = 0
        unchanged = self._kept_names
        wanted = [one for one in wanted if (one.kind, one.key) not in unchanged]
        await self._in_slices(wanted, self._put)
        await self._in_slices(difference.deletions, self._delete)
        await in_task(self._node.synced())
        return self.outcome

    async def _valid(self, puts: Sequence[ComparedItem]) -> list[ComparedItem]:
        """The items without a problem that can be found before they are declared."""
        lists: dict[str, list[Item]] = {}
        numbered: dict[tuple[str, int], ComparedItem] = {}
        for one in puts:
            items = lists.setdefault(one.kind, [])
            numbered[one.kind, len(items)] = one
            items.append(one.item)
        found = await Checker(self._node, DefinitionLists(lists), self._give_way).problems()
        for path, reason in found:
            place = _PLACE.match(path)
            assert place is not None, path
            name = place[1], int(place[2])
            if name in numbered:
                self._note_problem(numbered.pop(name), f"{place[3]} {reason}".strip(" ."))
        return list(numbered.values())

    def _note_problem(self, one: ComparedItem, reason: str) -> None:
        self.outcome.problems.append({**described(one), "reason": reason})
        if len(self.outcome.problems) > PROBLEMS_MAX:
            raise ApplyError(f"more than {PROBLEMS_MAX} objects cannot be declared here: {reason}")

    async def _in_slices(self, items: Sequence[ComparedItem], do: Do) -> None:
        for _, group in groupby(items, attrgetter("kind")):
            of_kind = list(group)
            for start in range(0, len(of_kind), SLICE):
                await self._attempt(of_kind[start : start + SLICE], do)
                await self._give_way()

    async def _attempt(self, items: Sequence[ComparedItem], do: Do) -> None:
        """Apply a function to items; to each item separately if one of them is refused."""
        try:
            await do(items)
        except (NotTaken, MetadataFull) as error:
            raise ApplyError(str(error)) from None
        except REFUSALS as error:
            if state_of(self._node.parameters) != self._state:
                raise Superseded from None
            if len(items) == 1:
                reason = reason_of(error) if isinstance(error, Fault) else str(error)
                self._note_problem(items[0], reason)
                return
            for one in items:
                await self._attempt((one,), do)

    # Additions and changes

    async def _put(self, items: Sequence[ComparedItem]) -> None:
        await self._submit([made for one in items for made in self._declared(one)])
        changed = sum(one.is_change for one in items)
        self.outcome.changed += changed
        self.outcome.added += len(items) - changed

    def _declared(self, one: ComparedItem) -> Iterable[Declaration]:
        item = one.item
        if one.kind == "users":
            return self._user(item)
        if one.kind == "vhosts":
            return self._vhost(item)
        if one.kind == "parameters" and item["component"] == VHOST_LIMITS:
            return (PutVhostLimits(item["vhost"], check_limits(item["value"], OF_VHOSTS)),)
        return self._items.of[one.kind](item)

    def _user(self, item: Item) -> Iterator[Declaration]:
        """A user with exactly these limits; an import leaves others in force."""
        name = item["name"]
        yield from self._items.of["users"]({**item, "limits": None, "permissions": None})
        if item.get("limits"):
            yield PutUserLimits(name, check_limits(item["limits"], OF_USERS))
        elif self._node.limits.of_user(name):
            yield DeleteUserLimits(name)

    def _vhost(self, item: Item) -> Iterator[Declaration]:
        """A vhost; fields that the upstream does not export stay as they are."""
        name, form = item["name"], vhost_form(item)
        there = self._node.vhost(name)
        if there is not None:
            now = {"description": there.description, "tags": there.tags}
            item = {**item, **{key: value for key, value in now.items() if form[key] is NOT_TOLD}}
        yield from self._items.of["vhosts"](item)
        for key, parameter in VHOST_METADATA_PARAMETERS:
            if self._node.parameters.get(VHOST_METADATA, name, parameter) and form[key] == "":
                yield DeleteParameter(VHOST_METADATA, name, parameter)

    # Deletions

    async def _delete(self, items: Sequence[ComparedItem]) -> None:
        going = []
        for one, reason in zip(items, await self._deletions.kept(items), strict=True):
            if reason:
                self._kept_names.add((one.kind, one.key))
                self.outcome.kept.append({**described(one), "reason": reason})
            else:
                going.append(one)
        await self._submit([made for one in going for made in self._deletions.of(one)])
        self.outcome.deleted += len(going)

    async def _submit(self, declarations: Sequence[Declaration]) -> None:
        """Declare them, while the state of the replication is that of this sync."""
        if not declarations:
            return
        made = [replace(one, acting_user=ACTING_USER) for one in declarations]
        submitted = self._node.submit(self._requirement, *made, requester=self._requester)
        await given_in_task(submitted)
