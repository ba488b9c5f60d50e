"""Mirrored queues: docs/design/replication.md."""
