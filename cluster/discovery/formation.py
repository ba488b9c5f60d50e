"""Decides which node forms a new cluster, and which node a new one joins. Pure.

Promise. Nodes that start together for the first time, list each other and reach each other form one
cluster, whatever the order in which they start and ask. A node joins a cluster that it finds before
it forms one.

Not promised. A node whose peers cannot be reached at all forms a cluster alone after the last
attempt, as in RabbitMQ: it cannot know whether they exist. Nodes that cannot reach each other while
they start for the first time can form two clusters.

Why not a lock between the nodes. In RabbitMQ 3.10 all listed nodes agree on the holder of a lock,
which waits until every attempt has failed before it forms a cluster: five seconds. Here a backend's
own lock is used where it has one (Consul, etcd); otherwise the order of the names decides, which
needs no agreement and no waiting.

Mechanism. One round is: list the nodes, ask each peer for its state, decide. A peer is `MEMBER` (it
belongs to a cluster and runs), `BLANK` (it is new and in this phase, too) or `UNREACHABLE`.

    a peer is MEMBER                        join it; with several, a different one each attempt
    there are no peers                      form
    this node is not first                  wait; the first one will form
    this node is first, all are BLANK       form
    this node is first, some UNREACHABLE    wait; at the last attempt: form

A node is first if it holds the lock, or if no BLANK peer has a name before its own.

Two nodes that decide at the same time: A comes before B. A forms because B answered BLANK. Then A
has asked B since B's round began, or B's own request has found A: B does not form in that round
(FM2).

Invariants:

FM1. A node that has found a MEMBER in a round does not form in that round.
FM2. A node without the lock forms only if, since it asked, no node that comes before it asked it.
FM3. A node waits a finite number of rounds for each other node, then stops with an error.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from leveret.broker.runtime.node_address import NodeAddress

WAITING_FACTOR = 2
"""A node waits for the first one for this multiple of its own attempts: at worst the first one
started later, with as many attempts of its own.
"""
SHOWN_MAX = 1_000_000_000
"""More attempts than this have no limit, as with `unlimited`."""


class PeerState(Enum):
    """The state of a peer."""

    MEMBER = auto()
    BLANK = auto()
    UNREACHABLE = auto()


@dataclass(frozen=True, slots=True)
class Discover:
    """List the nodes. is_delayed: after the interval between two attempts. reason: for the log."""

    is_delayed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AskPeers:
    """Ask the peers for their states."""

    peers: tuple[NodeAddress, ...]


@dataclass(frozen=True, slots=True)
class JoinCluster:
    """Join the cluster of a node."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class FormCluster:
    """Form a cluster of one node. reason: for the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The node must not start. reason: for the log and the operator."""

    reason: str


Action = Discover | AskPeers | JoinCluster | FormCluster | Stop


class Formation:
    """The machine: each input returns the next action.

    own: the name of this node. attempts_max: the limit of listings in a row, and of rounds.
    """

    def __init__(self, own: str, attempts_max: int, *, has_lock: bool) -> None:
        self._own = own
        self._attempts_max = attempts_max
        self._has_lock = has_lock
        self._failed_lists = 0
        self._rounds = 0
        self._rounds_behind: Counter[str] = Counter()
        self._was_asked_by = ""
        self._peers: tuple[NodeAddress, ...] = ()

    def start(self) -> Action:
        """The first action."""
        return Discover()

    def listing_failed(self, reason: str) -> Action:
        """The backend could not be asked."""
        self._failed_lists += 1
        if self._failed_lists >= self._attempts_max:
            return Stop(f"the nodes of the cluster could not be listed: {reason}")
        left = self._attempts_max - self._failed_lists
        return Discover(is_delayed=True, reason=f"{reason} ({_attempts(left)} left)")

    def listed(self, nodes: tuple[NodeAddress, ...]) -> Action:
        """The backend listed nodes; this node may be among them."""
        self._failed_lists = 0
        by_name = {node.name: node for node in nodes if node.name != self._own}
        self._peers = tuple(by_name[name] for name in sorted(by_name))
        self._was_asked_by = ""
        if not self._peers:
            return FormCluster("no other nodes were discovered")
        return AskPeers(self._peers)

    def asked_by(self, peer: str) -> None:
        """A new node asked for the state of this one, and is told BLANK."""
        if not self._has_lock and peer < self._own:
            self._was_asked_by = peer

    def answered(self, states: Mapping[str, PeerState]) -> Action:
        """The states of the peers, by name; a peer without an entry is unreachable."""
        self._rounds += 1
        members = [peer for peer in self._peers if states.get(peer.name) is PeerState.MEMBER]
        if members:
            return JoinCluster(members[(self._rounds - 1) % len(members)])  # FM1
        blank = [peer.name for peer in self._peers if states.get(peer.name) is PeerState.BLANK]
        before = [name for name in blank if name < self._own and not self._has_lock]
        if self._was_asked_by:
            before.append(self._was_asked_by)
        if before:
            return self._wait_for(min(before))
        return self._form_or_wait(len(blank))

    def join_failed(self, node: NodeAddress, reason: str) -> Action:
        """The node to join has refused, or is down."""
        if self._rounds >= self._attempts_max:
            return Stop(f"{node.name} is in a cluster and cannot be joined: {reason}")
        return self._next_round(f"{node.name} cannot be joined: {reason}")

    def _wait_for(self, first: str) -> Action:
        self._rounds = 0
        self._rounds_behind[first] += 1
        if self._rounds_behind[first] >= WAITING_FACTOR * self._attempts_max:  # FM3
            return Stop(
                f"{first} is new as well and should form the cluster, but does not: look at its log"
            )
        return Discover(is_delayed=True, reason=f"{first} is new as well and forms the cluster")

    def _form_or_wait(self, blank: int) -> Action:
        assert not self._was_asked_by  # FM2
        silent = len(self._peers) - blank
        if not silent:
            return FormCluster("all other nodes are new as well")
        names = ", ".join(peer.name for peer in self._peers)
        if self._rounds >= self._attempts_max:
            return FormCluster(f"none of {names} is in a cluster that can be reached")
        return self._next_round(f"{silent} of {names} cannot be reached")

    def _next_round(self, reason: str) -> Action:
        left = max(self._attempts_max - self._rounds, 0)
        return Discover(is_delayed=True, reason=f"{reason} ({_attempts(left)} left)")


def _attempts(number: int) -> str:
    if number > SHOWN_MAX:
        return "any number of attempts"
    return f"{number} attempt{'' if number == 1 else 's'}"
