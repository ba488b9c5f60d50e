"""Mirrored classic queues. docs/design/replication.md describes the protocol."""
