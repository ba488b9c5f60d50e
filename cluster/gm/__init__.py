"""Guaranteed multicast: what one member of a group broadcasts, all members deliver, in its order.

docs/design/replication.md has the promises (G1 to G7) and how the ring works. Everything here is
pure: `ring_member.py` is the machine of one member, and the service around it carries out what
it returns (`outputs.py`).
"""
