"""Quorum queues."""
