"""A group of members that agree on a log by Raft. One member is a pure state machine.

docs/design/quorum-queues.md has the promises (QG1 to QG9) and the mechanism. `raft_member.py` is
the machine; its service calls it, and carries out what it asks for (`outputs.py`).
"""
