"""Guaranteed multicast: all members of a group deliver each member's broadcasts, in their order.

docs/design/replication.md has the promises (G1 to G7) and how the ring works. Everything here is
pure: `ring_member.py` is the state machine of one member, and the service around it carries out
the outputs that it returns (`outputs.py`).
"""
