"""The definition of a federation link: its ends and its options.

A subject is an exchange or a queue of this node that a policy federates. It has a link for each of
its upstreams. A link is identified by its place, as in RabbitMQ's status. Pure.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from leveret.broker.erlang.phash2 import phash2
from leveret.broker.erlang.terms import Atom
from leveret.broker.policies.federation_parameters import Upstream

IDS_KEPT: Final = 10_000
"""To hash a place takes 0.1 ms, and lists show those of all links again and again."""


class Subject(NamedTuple):
    """A federated exchange or queue. kind: `exchange` or `queue`."""

    kind: str
    vhost: str
    name: str


class LinkPlace(NamedTuple):
    """The place of a link. upstream: its name. upstream_name: the exchange or queue there."""

    kind: str
    vhost: str
    name: str
    upstream: str
    upstream_name: str

    @property
    def link_id(self) -> str:
        """RabbitMQ's id of the link: a hash of the place."""
        return _link_id(self)

    def __str__(self) -> str:
        return (
            f"federation link of {self.kind} '{self.name}' in vhost '{self.vhost}' "
            f"to upstream '{self.upstream}'"
        )


@lru_cache(maxsize=IDS_KEPT)
def _link_id(place: LinkPlace) -> str:
    resource = (Atom("resource"), place.vhost, Atom(place.kind), place.name)
    return f"{phash2((resource, place.upstream, place.upstream_name)):08x}"


@dataclass(frozen=True)
class LinkDefinition:
    """A link at a place; when any part changes, the link restarts.

    policy: the name of the policy that federates the subject. cluster_name: this cluster's name.
    federated: the exchange or queue itself, compared by identity: another one may get its name.
    """

    place: LinkPlace
    upstream: Upstream
    policy: str
    cluster_name: str
    federated: object
