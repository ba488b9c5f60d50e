"""Checks whether other nodes still send frames: about one check a second for all groups.

A node that has nothing to send sends an empty frame, so a link on which nothing arrives for two
checks is silent. Checks are counted instead of time: if this process did not run for a while, that
is one late check, and the frames that arrived before it are still in the socket. A link to a node
that has no members of this node's groups is not watched.
"""

from typing import Protocol

from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.links.services import Peer

CHECK_MS = 900
SILENT_CHECKS = 2
"""A leader that is suspended is replaced within three seconds, with the election that follows."""


class WatchHost(Protocol):
    """The service of the node."""

    def has_groups_on(self, node: str) -> bool:
        """Whether a group has members on this node and on that one."""

    def is_silent(self, node: str) -> None:
        """No frames arrive from a node."""

    def is_heard(self, node: str) -> None:
        """A frame has arrived from a node that was silent."""

    def send_sign_of_life(self, peer: Peer) -> None:
        """Send an empty frame."""


class _WatchedLink:
    """One link, with counts of frames received and sent since the last check."""

    __slots__ = ("is_silent", "peer", "received", "sent", "silent_checks")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.received = self.sent = self.silent_checks = 0
        self.is_silent = False


class LinkWatch:
    """The links of a node. checks: how many there were."""

    def __init__(self, host: WatchHost, clock: Clock) -> None:
        self.checks = 0
        self._host = host
        self._clock = clock
        self._links: dict[str, _WatchedLink] = {}
        self._timer: Timer | None = None

    @property
    def silent(self) -> set[str]:
        """The nodes whose links are up, but send nothing: they may be suspended."""
        return {node for node, link in self._links.items() if link.is_silent}

    def link_up(self, peer: Peer) -> None:
        """A link is up."""
        self._links[peer.name] = _WatchedLink(peer)
        if self._timer is None:
            self._timer = self._clock.call_later_ms(CHECK_MS, self._check)

    def link_down(self, node: str) -> None:
        """A link is down."""
        self._links.pop(node, None)

    def received(self, node: str) -> None:
        """A frame was received."""
        link = self._links.get(node)
        if link is None:
            return
        link.received += 1
        if link.is_silent:
            link.is_silent = False
            self._host.is_heard(node)

    def sent(self, node: str) -> None:
        """A frame was sent."""
        link = self._links.get(node)
        if link is not None:
            link.sent += 1

    def _check(self) -> None:
        self._timer = None
        for node, link in list(self._links.items()):
            if not self._host.has_groups_on(node):
                link.silent_checks = 0
                continue
            link.silent_checks = 0 if link.received else link.silent_checks + 1
            if link.silent_checks >= SILENT_CHECKS and not link.is_silent:
                link.is_silent = True
                self._host.is_silent(node)
            if not link.sent:
                self._host.send_sign_of_life(link.peer)
            link.received = link.sent = 0
        self.checks += 1
        if self._links:
            self._timer = self._clock.call_later_ms(CHECK_MS, self._check)

    def close(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._links.clear()
