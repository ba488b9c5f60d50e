"""A group of members that agree on a log through Raft. Each member is a pure state machine.

docs/design/quorum-queues.md states the guarantees (QG1 to QG9) and describes the mechanism.
`raft_member.py` is the state machine; a service calls it and carries out its outputs
(`outputs.py`).
"""
