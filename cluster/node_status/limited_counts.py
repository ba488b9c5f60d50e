"""The counts of open connections and channels that nodes send each other, where limits apply.

A limit on the connections of a vhost, or on the connections and channels of a user, applies to the
whole cluster, as in RabbitMQ (`rabbit_connection_tracking`). Each node sends all others its counts
for everything that has a limit: all of them when a link comes up, and the changed ones after each
turn in which a connection, a channel or a limit changed. A node that is down counts as having none.

Promised: a node uses the counts of the last frame that has arrived from each other node. Not
promised: that a limit is never exceeded. While a frame is in flight, or a link is down, each node
uses the last known counts of the others; no excess connection is closed later. RabbitMQ asks the
other nodes at each opening, and counts after it: its limits can be exceeded in the same way.

Without a limit, and without other nodes, nothing is counted, sent or listened to.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from leveret.broker.amqp.field_table import bytes_of
from leveret.broker.events.events import Event, Events
from leveret.broker.policies.limits import VhostAndUserLimits
from leveret.broker.policies.open_counts import OpenCounts
from leveret.broker.runtime.turns import Turns
from leveret.cluster.links.services import LIMITED_COUNTS_SERVICE, Peer, ServiceRegistry

CHANGES = frozenset(
    ("connection.created", "connection.closed", "channel.created", "channel.closed")
)
"""The events after which counts may have changed."""
NONE = (0, 0)

Value = TypeVar("Value")


class CountingNode(Protocol):
    """The part of the broker's services that is used here."""

    limits: VhostAndUserLimits
    open_counts: OpenCounts
    events: Events
    turns: Turns


class ChangedCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changed counts of a node. Names are bytes, which may not be UTF-8.

    vhosts: connections of vhosts. users: connections and channels of users.
    """

    vhosts: dict[bytes, int] = {}
    users: dict[bytes, tuple[int, int]] = {}


NOTHING = ChangedCounts()


class LimitedCounts:
    """A `Service`: the counts of this node, and of the nodes that are linked with it."""

    def __init__(self, links: ServiceRegistry, node: CountingNode) -> None:
        self._node = node
        self._vhosts: frozenset[str] = frozenset()
        self._users: frozenset[str] = frozenset()
        self._told = NOTHING
        self._peers: dict[Peer, ChangedCounts] = {}
        self._is_listening = self._is_due = self._have_limits_changed = False
        node.limits.changed = self._limits_changed
        node.open_counts.elsewhere = self
        links.register(LIMITED_COUNTS_SERVICE, self)

    # See `OpenedElsewhere`

    def connections_of_vhost(self, vhost: str) -> int:
        """Connections to a vhost that has a limit."""
        name = bytes_of(vhost)
        return sum(counts.vhosts.get(name, 0) for counts in self._peers.values())

    def connections_of_user(self, user: str) -> int:
        """Connections of a user with a limit."""
        name = bytes_of(user)
        return sum(counts.users.get(name, NONE)[0] for counts in self._peers.values())

    def channels_of_user(self, user: str) -> int:
        """Channels of a user with a limit."""
        name = bytes_of(user)
        return sum(counts.users.get(name, NONE)[1] for counts in self._peers.values())

    # Telling

    def _limits_changed(self) -> None:
        """Check the limits later: listening must not start while declarations are applied."""
        self._have_limits_changed = True
        self._tell_later()

    def _heard(self, event: Event) -> None:
        if event["event"] in CHANGES:
            self._tell_later()

    def _tell_later(self) -> None:
        """Send changed counts once, after all events of this turn."""
        if self._peers and not self._is_due:
            self._is_due = True
            self._node.turns.call_soon(self._tell)

    def _tell(self) -> None:
        """Send all other nodes the counts that have changed since the last frame."""
        self._is_due = False
        if self._have_limits_changed:
            self._look_at_limits()
        before, counts = self._told, self._count()
        self._told = counts
        if counts != before:
            self._send(
                ChangedCounts(
                    _changed(before.vhosts, counts.vhosts, 0),
                    _changed(before.users, counts.users, NONE),
                ),
                self._peers,
            )

    def _look_at_limits(self) -> None:
        """Listen to events if there are limits and other nodes."""
        limits = self._node.limits
        self._have_limits_changed = False
        self._vhosts, self._users = limits.counted_vhosts, limits.counted_users
        is_wanted = bool(self._peers and (self._vhosts or self._users))
        if is_wanted and not self._is_listening:
            self._node.events.listen(self._heard)
        elif self._is_listening and not is_wanted:
            self._node.events.forget(self._heard)
        self._is_listening = is_wanted

    def _count(self) -> ChangedCounts:
        if not self._vhosts and not self._users:
            return NOTHING
        opened = self._node.open_counts
        return ChangedCounts(
            {bytes_of(name): one for name, one in opened.own_of_vhosts(self._vhosts).items()},
            {bytes_of(name): one for name, one in opened.own_of_users(self._users).items()},
        )

    @staticmethod
    def _send(counts: ChangedCounts, peers: Iterable[Peer]) -> None:
        frame = msgspec.msgpack.encode(counts)
        for peer in peers:
            peer.send(LIMITED_COUNTS_SERVICE, frame)

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self._peers[peer] = NOTHING
        self._look_at_limits()
        self._tell()
        if self._told != NOTHING:
            self._send(self._told, (peer,))

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        del self._peers[peer]
        self._look_at_limits()

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take another node's counts. Raises ValueError if they are damaged."""
        before, told = self._peers[peer], msgspec.msgpack.decode(payload, type=ChangedCounts)
        self._peers[peer] = ChangedCounts(
            {name: one for name, one in {**before.vhosts, **told.vhosts}.items() if one},
            {name: one for name, one in {**before.users, **told.users}.items() if one != NONE},
        )

    def drained(self, peer: Peer) -> None:
        """Do nothing: the frames are small and do not wait for room."""


def _changed(
    before: Mapping[bytes, Value], after: Mapping[bytes, Value], none: Value
) -> dict[bytes, Value]:
    """The counts that differ from the earlier ones."""
    names = before.keys() | after.keys()
    return {
        name: after.get(name, none)
        for name in names
        if after.get(name, none) != before.get(name, none)
    }
