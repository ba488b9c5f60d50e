"""Queues of any kind whose messages are in Raft groups: their members, leaders and records."""
