"""Decides which connection becomes the link of a pair of nodes, when there is more than one.

Promise. Two nodes that can reach each other have one link, both use the same connection for it, and
a working link is never given up for another one.

Mechanism. The acceptor of a connection decides about it, once the dialler has proven that it knows
the cookie. Both nodes may dial at once, so each is the dialler of one connection and the acceptor
of the other.

- The node with the greater name decides for both. When it has sent its proof on the connection that
  it dialled, it refuses the other one. When it has accepted the other one before that, it gives up
  the one that it dialled, and never sends its proof. The node with the lesser name accepts every
  connection: the greater one has decided.
- A node that accepts a connection gives up its own dial to that node.
- An existing link is asked for a sign of life. If it gives one, the new connection
  is refused: it is a leftover of simultaneous dialling (the same incarnation), or another node with
  the same name (another incarnation). If it gives none, it is replaced. The operating system of a
  restarted node answers at once for the dead process, so there is a delay only if the machine is
  gone.

Invariant.
  OL1  After a node has sent its proof to a lesser one, it accepts no connection of that node until
       this one has ended.
"""

from enum import Enum, auto

PROBE_MS = 2000
"""Time limit for a link's sign of life: longer than a turn of a busy node, shorter than
handshake.LIMIT_MS."""


class LinkDecision(Enum):
    """The decision of an acceptor about a proven connection."""

    ACCEPT = auto()
    REFUSE = auto()
    PROBE = auto()


def decide(own: str, peer: str, *, own_proof_sent: bool, is_linked: bool) -> LinkDecision:
    """Decide about a connection from another node.

    own_proof_sent: whether this node has dialled that one, and waits for its decision.
    """
    assert own != peer
    if is_linked:
        return LinkDecision.PROBE
    if own_proof_sent and own > peer:
        return LinkDecision.REFUSE  # OL1
    return LinkDecision.ACCEPT
