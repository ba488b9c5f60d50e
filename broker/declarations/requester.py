"""The requester of a change of the node and its address, for the audit (audit.py)."""

import msgspec

from leveret.broker.runtime.names import NODE_ITSELF

AMQP, HTTP, CONTROL, DEFINITIONS, NODE = "AMQP", "HTTP", "leveretctl", "definitions", "node"
"""The way of a request. NODE: no request; the change follows from another change, or from time."""


class Requester(msgspec.Struct, frozen=True):
    """The requester of a change. address: the client's, as text. way: `AMQP`, `HTTP` and so on."""

    user: str
    address: str = ""
    way: str = NODE

    def __str__(self) -> str:
        address = f" from {self.address}" if self.address else ""
        return f"user '{self.user}'{address} by {self.way}"


THE_NODE = Requester(NODE_ITSELF)
