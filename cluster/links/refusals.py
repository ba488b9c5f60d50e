"""The reasons why a link is refused, as sentences for the operator of this node.

A kind of refusal is a word on the wire; each side writes its own sentence. A sentence states the
difference and the remedy. It begins in lower case, after "node or address: ".
"""

from enum import Enum
from typing import NamedTuple

from leveret.cluster.links.hello import Hello


class RefusalKind(Enum):
    """The reason of a refusal; its value is sent."""

    GARBAGE = "garbage"
    COOKIE = "cookie"
    VERSION = "version"
    CLUSTER = "cluster"
    SAME_NAME = "same-name"
    WRONG_NODE = "wrong-node"
    DUPLICATE = "duplicate"
    LINKED = "linked"
    TOO_SLOW = "too-slow"
    CLOSED = "closed"
    UNREACHABLE = "unreachable"
    TOO_MANY = "too-many"
    CERTIFICATE = "certificate"


REFUSAL_WORDS = {kind.value.encode(): kind for kind in RefusalKind}


class LinkRefusal(NamedTuple):
    """The reason why a link is not made. sentence: for the log."""

    kind: RefusalKind
    sentence: str


SHARE_THE_COOKIE = (
    "nodes of a cluster need the same cookie: copy the file cluster.cookie of one node's data "
    "directory to the other, or set cluster.cookie_file or LEVERET_COOKIE alike on both"
)
QUORUM_QUEUES_VERSION = 2
"""The first version of the protocol whose nodes have quorum queues of several members."""
NAMES_DIFFER = (
    "every node needs a name of its own: stop one of the two, or start it with another --node and "
    "a data directory of its own"
)


def refusal_of_hello(own: Hello, peer: Hello, *, is_dialler: bool) -> LinkRefusal | None:
    """The reason, visible in their hellos, not to link two nodes; None if there is none."""
    if peer.node == own.node:
        return _same_name(own, peer)
    if is_dialler and peer.node != own.wanted:
        return LinkRefusal(
            RefusalKind.WRONG_NODE,
            f"node {peer.node} answers where {own.wanted} was expected: correct the address of "
            f"{own.wanted}",
        )
    if not is_dialler and peer.wanted != own.node:
        return LinkRefusal(
            RefusalKind.WRONG_NODE,
            f"node {peer.node} takes this node for {peer.wanted}: correct the address of "
            f"{peer.wanted} on {peer.node}",
        )
    if own.newest < peer.oldest or peer.newest < own.oldest:
        return LinkRefusal(RefusalKind.VERSION, _versions_differ(own, peer))
    if own.cluster and peer.cluster and own.cluster != peer.cluster:
        return LinkRefusal(RefusalKind.CLUSTER, _clusters_differ(own, peer))
    return None


def wrong_cookie(peer: Hello) -> LinkRefusal:
    """The other side does not know this node's cookie. Its name is not proven."""
    return LinkRefusal(
        RefusalKind.COOKIE,
        f"it says that it is node {peer.node}, but its cookie is not the one of this node; "
        f"{SHARE_THE_COOKIE}",
    )


def duplicate(peer: Hello) -> LinkRefusal:
    """The name of the node is that of a linked one, which is alive."""
    return LinkRefusal(
        RefusalKind.DUPLICATE,
        f"a second node with the name {peer.node} is refused, since the first one is still linked; "
        f"{NAMES_DIFFER}",
    )


def linked(peer: Hello) -> LinkRefusal:
    """Another connection to the same start of the node is kept instead."""
    return LinkRefusal(RefusalKind.LINKED, f"node {peer.node} is linked by another connection")


def too_many(unfinished_max: int) -> LinkRefusal:
    """The connection has to make room for a newer one."""
    return LinkRefusal(
        RefusalKind.TOO_MANY,
        f"more than {unfinished_max} connections are in their handshake, and this one was the "
        "oldest: let nothing but nodes connect to cluster.port, by a firewall or by cluster.ip",
    )


def wrong_certificate(peer: Hello, host: str) -> LinkRefusal:
    """The certificate of the dialler is that of another host."""
    return LinkRefusal(
        RefusalKind.CERTIFICATE,
        f"the certificate of node {peer.node} is not valid for the host {host}: make one that has "
        "it among its subject alternative names",
    )


def refusal_told(kind: RefusalKind, own: Hello, peer: Hello) -> LinkRefusal:
    """The reason why the accepting node refused this node, from this node's point of view."""
    match kind:
        case RefusalKind.COOKIE:
            sentence = f"node {peer.node} has another cookie; {SHARE_THE_COOKIE}"
        case RefusalKind.DUPLICATE:
            sentence = (
                f"node {peer.node} is linked to another node named {own.node}, as this node is; "
                f"{NAMES_DIFFER}"
            )
        case RefusalKind.LINKED:
            sentence = f"node {peer.node} keeps another connection to this node"
        case _:
            sentence = f"node {peer.node} refuses this node ({kind.value}): its log says why"
    return LinkRefusal(kind, sentence)


def _same_name(own: Hello, peer: Hello) -> LinkRefusal:
    if peer.incarnation == own.incarnation:
        sentence = (
            "the address is that of this node itself: correct the address of the other node, such "
            "as its port"
        )
    else:
        sentence = f"another node has the name of this one, {own.node}; {NAMES_DIFFER}"
    return LinkRefusal(RefusalKind.SAME_NAME, sentence)


def _versions_differ(own: Hello, peer: Hello) -> str:
    older = "this node" if own.newest < peer.oldest else f"node {peer.node}"
    remedy = "upgrade it, over the releases in between if the cluster is to keep running"
    if min(own.newest, peer.newest) < QUORUM_QUEUES_VERSION:
        remedy = (
            "its quorum queues have one member each, so nodes cannot be upgraded one by one; stop "
            f"all nodes of the cluster, and start them all with Leveret {own.release}"
        )
    return (
        f"node {peer.node} (Leveret {peer.release}) speaks {_versions(peer)} of the protocol "
        f"between nodes, and this node (Leveret {own.release}) {_versions(own)}: {older} is older; "
        f"{remedy}"
    )


def _versions(hello: Hello) -> str:
    if hello.oldest == hello.newest:
        return f"version {hello.newest}"
    return f"versions {hello.oldest} to {hello.newest}"


def _clusters_differ(own: Hello, peer: Hello) -> str:
    return (
        f"node {peer.node} belongs to the cluster {peer.cluster}, and this node to {own.cluster}: "
        "remove the address of the other node, or reset one of the two and let it join"
    )
