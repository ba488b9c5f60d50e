"""The encoding of requests that a node passes on to other nodes, and of their answers.

Any node answers for the whole cluster: it has the nodes that a request concerns carry out the same
route for its user, and merges their answers into one (other_nodes.py). The request contains the
asking node's data about its user: the name, the tags, and the vhosts that the user may open. A node
trusts the other nodes of its cluster in this, as they know the cookie.

Texts are sent as bytes, since names from clients may have bytes that are not UTF-8.
"""

from collections.abc import Iterable, Iterator

import msgspec

from leveret.broker.declarations.requester import Requester

TOPIC = "management.request"
"""The topic of requests between nodes (cluster/rpc/rpc.py)."""
ANSWER_SECONDS_MAX, SILENCE_SECONDS_MAX = 30.0, 1.0
"""How long an answer may take in all, and without a sign that the node is working on it."""

Texts = tuple[tuple[bytes, bytes], ...]
"""Names and values, of which some may occur more than once."""
ObjectName = tuple[bytes, ...]
"""The names that identify an object in a list, such as its vhost and its name. Lists are in the
order of these names unless something else is asked for."""
SortKey = tuple[int, str | int | float | bool]
"""A sort key, as `listing.sort_key` makes it."""

EVERYTHING, OWN_PERMISSIONS, ASKED_PERMISSIONS = "everything", "own", "asked"
"""The user's rights beyond reading: everything (the control socket), the permissions of the
cluster's users, or the answers of the asking node when it is asked (asked_permissions.py)."""


class Keys(msgspec.Struct, tag="keys", frozen=True):
    """Requests the keys of the first objects of a list, in the requested order; None: of all."""

    count_max: int | None


class WantedRows(msgspec.Struct, tag="rows", frozen=True):
    """Requests these objects of a list. The answer may have fewer, from the first one on."""

    names: list[ObjectName]


class FilePieceRequest(msgspec.Struct, tag="piece", frozen=True):
    """Requests the octets of a file from an offset on, as many as fit into one answer."""

    offset: int


Part = Keys | WantedRows | FilePieceRequest


class FilePiece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a file. size: octets of the whole file."""

    size: int
    content: bytes


class KeyList(msgspec.Struct, frozen=True, array_like=True):
    """total: the number of objects. filtered: of those with the wanted name. keys: sort keys."""

    total: int
    filtered: int
    keys: list[tuple[SortKey, ObjectName]]


class PassedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request as one node passes it on to another.

    method, route: as in the table of routes. part: the requested part of a list or file; None for
    the whole answer. only_own: only the node's own objects are requested. authority: `EVERYTHING`,
    `OWN_PERMISSIONS` or `ASKED_PERMISSIONS`. number: identifies the user when the asking node is
    asked.
    """

    method: str
    route: str
    path: bytes
    variables: Texts
    query: Texts
    headers: Texts
    body: bytes
    user: bytes
    tags: tuple[bytes, ...]
    vhosts: tuple[bytes, ...]
    authority: str
    requester: tuple[bytes, bytes, bytes]
    part: Part | None
    only_own: bool
    number: int = 0


class PassedAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer. content: JSON, but MessagePack for `Keys` and `FilePieceRequest`.

    location: the path of the created object. A status of 400 and above is an error, whose content
    has `error` and `reason`.
    """

    status: int
    content: bytes = b""
    location: str = ""


def pack(text: str) -> bytes:
    """A text as bytes. Bytes that were not UTF-8 are kept, in a longer form."""
    return text.encode("utf-8", "surrogatepass")


def unpack(raw: bytes) -> str:
    """The inverse of `pack`."""
    return raw.decode("utf-8", "surrogatepass")


def pack_all(pairs: Iterable[tuple[str, str]]) -> Texts:
    """Names and values as bytes."""
    return tuple((pack(name), pack(value)) for name, value in pairs)


def unpack_all(pairs: Texts) -> Iterator[tuple[str, str]]:
    """Names and values."""
    return ((unpack(name), unpack(value)) for name, value in pairs)


def pack_requester(requester: Requester) -> tuple[bytes, bytes, bytes]:
    """The sender of the request, for the audit."""
    return pack(requester.user), pack(requester.address), pack(requester.way)


def unpack_requester(packed: tuple[bytes, bytes, bytes]) -> Requester:
    """The inverse of `pack_requester`."""
    user, address, way = map(unpack, packed)
    return Requester(user, address, way)
