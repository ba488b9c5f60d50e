"""Quorum queues whose members are on several nodes."""
