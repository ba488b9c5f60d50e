"""The import of definitions.

Everything is checked first (checking.py); if there is any problem, nothing is imported. The lists
are imported in the order of their dependencies: vhosts, users, permissions, parameters, policies,
exchanges, queues, bindings. Each is imported in slices, between which the node does its other work;
each slice is one transaction of the metadata. As in RabbitMQ, queues and exchanges that exist
already are left unchanged.
"""

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import DEFINITIONS, NODE, THE_NODE, Requester
from leveret.broker.policies.limits import LimitError
from leveret.broker.policies.policy_keys import PolicyError
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.mgmt.definitions.checking import Checker, reason_of
from leveret.mgmt.definitions.contents import DefinitionLists, DefinitionsError, Item, is_left_out
from leveret.mgmt.definitions.declaring import ItemDeclarations
from leveret.mgmt.definitions.users import UserError
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import GiveWay

SLICE = 25
"""Items in one transaction of the metadata: about two milliseconds of work."""


class Import:
    """One import. requester: the importing user; the node itself at its start."""

    def __init__(
        self,
        node: NodeFacade,
        definitions: DefinitionLists,
        give_way: GiveWay,
        requester: Requester = THE_NODE,
    ) -> None:
        self._node = node
        self._definitions = definitions
        self._give_way = give_way
        self._requester = requester
        self._acting_user = requester.user
        self._of_items = replace(requester, way=DEFINITIONS if requester.way != NODE else NODE)
        self._declarations = ItemDeclarations(node, self._acting_user)

    async def run(self) -> None:
        """Import everything; all of it is on disk afterwards.

        Raises DefinitionsError with all problems before anything is changed.
        """
        problems = await Checker(self._node, self._definitions, self._give_way).problems()
        if problems:
            raise DefinitionsError(problems[0].reason, problems)
        self._note()
        for kind in self._definitions.kinds():
            items = self._definitions.items(kind)
            for start in range(0, len(items), SLICE):
                some = items[start : start + SLICE]
                await self._import_slice(kind, [one for one in some if not is_left_out(kind, one)])
                await self._give_way()
        await in_task(self._node.synced())

    def _note(self) -> None:
        definitions, user, vhost = self._definitions, self._requester.user, self._definitions.vhost
        found = {kind: len(definitions.items(kind)) for kind in definitions.kinds()}
        counts = {kind: count for kind, count in found.items() if count}
        listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items())
        if vhost is None:
            asked = f"definitions. Acting user: {user}"
        else:
            asked = (
                f"definitions for a virtual host. Virtual host: '{vhost}', acting user: '{user}'"
            )
        text = f"Asked to import {asked}. They have {listed or 'nothing'}"
        act = AuditedChange(
            "definitions.imported", "definitions", "", text, vhost or "", dict(counts)
        )
        self._node.note(self._requester, act)

    async def _import_slice(self, kind: str, items: list[Item]) -> None:
        """Import items. Raises DefinitionsError if another change has made one invalid."""
        declarations = self._declarations.of[kind]
        try:
            made = [one for item in items for one in declarations(item)]
            made = [replace(one, acting_user=self._acting_user) for one in made]
            await given_in_task(self._node.submit(*made, requester=self._of_items))
        except (PolicyError, LimitError, UserError, LookupError) as error:
            raise DefinitionsError(f"{kind}: {error}") from None
        except Fault as fault:
            raise DefinitionsError(reason_of(fault)) from None
