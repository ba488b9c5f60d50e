"""The kinds of declared objects, a module for each (declared_objects.py)."""

from typing import Any

from leveret.broker.declarations.values import Declaration
from leveret.broker.registry.declared_objects import DeclaredObjects
from leveret.broker.registry.objects.bindings import DeclaredBindings
from leveret.broker.registry.objects.exchanges import DeclaredExchanges
from leveret.broker.registry.objects.limits import DeclaredUserLimits, DeclaredVhostLimits
from leveret.broker.registry.objects.parameters import DeclaredParameters
from leveret.broker.registry.objects.permissions import DeclaredPermissions
from leveret.broker.registry.objects.policies import DeclaredPolicies
from leveret.broker.registry.objects.queues import DeclaredQueues
from leveret.broker.registry.objects.topic_permissions import DeclaredTopicPermissions
from leveret.broker.registry.objects.users import DeclaredUsers
from leveret.broker.registry.objects.vhosts import DeclaredVhosts

Kind = type[DeclaredObjects[Any, Any]]

OBJECTS: tuple[Kind, ...] = (
    DeclaredVhosts,
    DeclaredUsers,
    DeclaredPermissions,
    DeclaredTopicPermissions,
    DeclaredParameters,
    DeclaredPolicies,
    DeclaredVhostLimits,
    DeclaredUserLimits,
    DeclaredExchanges,
    DeclaredQueues,
    DeclaredBindings,
)
"""All kinds, in the order in which declarations apply: an object comes after those it needs."""

KINDS: dict[type[Declaration], Kind] = {type_: kind for kind in OBJECTS for type_ in kind.types}
"""The kind of object that a declaration concerns, by the type of the declaration."""
