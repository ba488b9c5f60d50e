"""The members of a cluster, and the rules for changes of them.

The members are declared like everything else, so all nodes apply a change at the same place of the
order (metadata/). The rules are checked twice: where an operator gives the command, for an answer
that says what to do, and at the coordinator, since two operators may give commands at once. A rule
that refuses raises `MembershipRefused`; otherwise it returns the members after the change.

    join      a node without a cluster, or alone in its own, becomes a member
    leave     reset, or join_cluster to another cluster: at the node's own request
    forget    the others remove a node that is down
    change    a stopped node becomes a disc or a RAM node
    rename    a node that was stopped returns under another name

MB1. A cluster always has a disc node: the last one cannot leave, be forgotten or become a RAM node.
MB2. A node is in at most one cluster.
MB3. A running node is not forgotten and does not change its type.
MB4. A node that its cluster has forgotten does not start as a member of it.
"""

from collections.abc import Mapping

from leveret.cluster.rpc.refused import Refused

Members = Mapping[str, bool]
"""The names of a cluster's nodes, and whether each is a disc node."""


class MembershipRefused(Refused):
    """A change of the members is not allowed. The text has the request and the remedy."""


def join(members: Members, name: str, is_disc: bool, own: Members) -> Members:
    """Add a node.

    own: the members of its present cluster, including itself. A member may repeat its request for
    the same type, since it may have missed the answer.
    """
    if members.get(name) == is_disc and own.keys() <= members.keys():
        return members
    if name in members:
        raise MembershipRefused(
            f"a node {name} is a member of this cluster already. If it was reset without telling"
            f" the cluster, remove it with leveretctl forget_cluster_node {name} first"
        )
    others = {one: kind for one, kind in own.items() if one != name}
    if others and own.get(name, False) and not any(others.values()):
        raise MembershipRefused(
            f"node {name} cannot join another cluster: it is the only disc node of its own. Make"
            " another node of that cluster a disc node first"
        )
    joined = {**members, name: is_disc}
    _require_disc_node(joined, f"node {name} cannot be a RAM node: a cluster needs a disc node")
    return joined


def leave(members: Members, name: str) -> Members:
    """Remove a node that is reset or joins another cluster. A single node has nothing to leave."""
    remaining = {one: is_disc for one, is_disc in members.items() if one != name}
    if remaining:
        _require_disc_node(
            remaining,
            f"node {name} cannot be reset: it is the only disc node of its cluster. Make another"
            " node a disc node first, with leveretctl change_cluster_node_type disc",
        )
    return remaining


def forget(members: Members, name: str, *, asked: str, running: frozenset[str]) -> Members:
    """Remove a node at the request of another one. asked: the node that got the command."""
    if name not in members:
        raise MembershipRefused(f"node {name} is not a member of this cluster")
    if name == asked:
        raise MembershipRefused(
            f"node {name} cannot remove itself: use leveretctl reset, or give the command to"
            " another node"
        )
    check_removal(name, running=running)
    remaining = {one: is_disc for one, is_disc in members.items() if one != name}
    _require_disc_node(
        remaining, f"node {name} cannot be removed: it is the only disc node of the cluster"
    )
    return remaining


def check_removal(name: str, *, running: frozenset[str]) -> None:
    """Check a node that is about to be removed: it may have started since the request."""
    _require_stopped(name, running)


def change_type(members: Members, name: str, is_disc: bool, *, running: frozenset[str]) -> Members:
    """Make a node a disc or a RAM node, before its next start."""
    if len(members) < 2 or name not in members:
        raise MembershipRefused("a node without a cluster can only be a disc node")
    _require_stopped(name, running)
    if not running:
        raise MembershipRefused(
            f"none of the other nodes of the cluster is running, to tell of {name}"
        )
    changed = {**members, name: is_disc}
    _require_disc_node(
        changed, f"node {name} cannot become a RAM node: it is the only disc node of the cluster"
    )
    return changed


def rename(members: Members, old: str, new: str, *, running: frozenset[str]) -> None:
    """Check a new name of a node. The node may repeat its request if it has missed the answer."""
    if new in members and old not in members:
        return
    if old not in members:
        raise MembershipRefused(f"node {old} is not a member of this cluster")
    if new in members:
        raise MembershipRefused(f"a node {new} is a member of this cluster already")
    if old in running:
        raise MembershipRefused(f"node {old} is running: {new} cannot be its new name")


def check_start(name: str, *, own: Members, theirs: Members, other: str) -> None:
    """Check a starting node against a running one. own, theirs: the members that each knows."""
    if name in theirs:
        return
    if len(own) < 2:
        return
    raise MembershipRefused(
        f"node {name} thinks it's clustered with node {other}, but {other} disagrees: it was"
        " removed while it was down. Reset it before it joins again: move its data directory away,"
        " or, if its process still runs, use leveretctl force_reset"
    )


def _require_stopped(name: str, running: frozenset[str]) -> None:
    if name in running:
        raise MembershipRefused(
            f"node {name} is running. Stop it first, with leveretctl --node {name} stop_app"
        )


def _require_disc_node(members: Members, reason: str) -> None:
    if not any(members.values()):
        raise MembershipRefused(reason)
