"""How many members a quorum queue gets, and should have. Pure.

The number of members is given by the argument `x-quorum-initial-group-size`, else by the policy's
`target-group-size`, else by the default of the virtual host, else by `quorum_cluster_size`.
"""

from collections.abc import Mapping
from typing import Any

from leveret.broker.amqp.field_table import Table

GROUP_SIZE_ARGUMENT, GROUP_SIZE_POLICY = "x-quorum-initial-group-size", "target-group-size"
TARGET_SIZE_ARGUMENT = "x-quorum-target-group-size"


def group_size(
    arguments: Table, policy: Mapping[str, Any], of_vhost: int | None, configured: int
) -> int:
    """How many members a new queue gets. policy: the merged definition of its policies."""
    argument = arguments.get(GROUP_SIZE_ARGUMENT)
    for size in (None if argument is None else argument[1], policy.get(GROUP_SIZE_POLICY)):
        if isinstance(size, int) and size > 0:
            return size
    return of_vhost or configured


def target_size(arguments: Table, policy: Mapping[str, Any]) -> int:
    """How many members a queue should have if there are enough nodes; 0 if not specified."""
    argument = arguments.get(TARGET_SIZE_ARGUMENT)
    sizes = (None if argument is None else argument[1], policy.get(GROUP_SIZE_POLICY))
    return max([0, *[size for size in sizes if isinstance(size, int)]])
