"""Partitions: what the nodes of each side do."""
