"""Who requested a change of the node, and from where: what the audit tells (broker/audit.py)."""

import msgspec

from leveret.broker.names import NODE_ITSELF

AMQP, HTTP, CONTROL, DEFINITIONS, NODE = "AMQP", "HTTP", "leveretctl", "definitions", "node"
"""How something was requested. NODE: by nobody; it follows from another change, or from time."""


class Requester(msgspec.Struct, frozen=True):
    """Who requested a change. address: of the client, as text. way: `AMQP`, `HTTP` and so on."""

    user: str
    address: str = ""
    way: str = NODE

    def __str__(self) -> str:
        address = f" from {self.address}" if self.address else ""
        return f"user '{self.user}'{address} by {self.way}"


THE_NODE = Requester(NODE_ITSELF)
