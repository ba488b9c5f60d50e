"""The connected clients of a node, by virtual host and client identifier.

A client that connects with the identifier of a connected one takes its place, on whatever node of
the cluster either of them is. Each connection has a time of a hybrid clock, and the newest one
stays: so of two that connect at once on two nodes both nodes keep the same one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer, given
from leveret.storage.retained.retained_rows import HybridClock

CLIENT_WORK: Final = 4
"""The units of work (broker/runtime/turns.py) for one client of a list."""


class IdentifiedClient(Protocol):
    """The connection of a client."""

    def taken_over(self, is_clean: bool) -> None:
        """Another client has its identifier: end. is_clean: it does not continue the session."""


class Since(NamedTuple):
    """When a client connected, by the hybrid clock, and to which node."""

    time: int
    node: str


class HeldClient(NamedTuple):
    """A connected client."""

    client: IdentifiedClient
    since: Since


class ClientsOfOtherNodes(Protocol):
    """The other nodes of the cluster (cluster/node_status/clients_elsewhere.py)."""

    def taken(self, vhost: str, client_id: str, time: int, is_clean: bool) -> Answer[None]:
        """A client has connected here. The answer: no linked node has an older one any longer."""


class ClientIds:
    """The connected clients. others: None without a cluster."""

    def __init__(self, clock: Clock, node: str) -> None:
        self.others: ClientsOfOtherNodes | None = None
        self._clock = clock
        self._node = node
        self._hybrid = HybridClock()
        self._connected: dict[tuple[str, str], HeldClient] = {}

    def take(
        self, vhost: str, client_id: str, client: IdentifiedClient, is_clean: bool
    ) -> Answer[None]:
        """Register a client, in place of the one with its identifier, which ends.

        is_clean: it does not continue the session. The answer is given when no other node that is
        linked has a client with this identifier, or does not answer.
        """
        time = self._hybrid.next(int(self._clock.wall_time_s() * 1000))
        self._put(vhost, client_id, HeldClient(client, Since(time, self._node)), is_clean)
        if self.others is None:
            return given(None)
        return self.others.taken(vhost, client_id, time, is_clean)

    def _put(self, vhost: str, client_id: str, held: HeldClient, is_clean: bool) -> None:
        key = (vhost, client_id)
        other = self._connected.get(key)
        self._connected[key] = held
        if other is not None:
            other.client.taken_over(is_clean)

    def taken_elsewhere(self, vhost: str, client_id: str, since: Since, is_clean: bool) -> None:
        """A client has connected to another node: an older one with its identifier ends here."""
        self._hybrid.see(since.time)
        held = self._connected.get((vhost, client_id))
        if held is not None and held.since < since:
            del self._connected[vhost, client_id]
            held.client.taken_over(is_clean)

    def remove(self, vhost: str, client_id: str, client: IdentifiedClient) -> None:
        """A client has ended."""
        held = self._connected.get((vhost, client_id))
        if held is not None and held.client is client:
            del self._connected[vhost, client_id]

    def __len__(self) -> int:
        return len(self._connected)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Virtual host, client identifier and time of each."""
        for (vhost, client_id), held in tuple(self._connected.items()):
            yield vhost, client_id, held.since.time
