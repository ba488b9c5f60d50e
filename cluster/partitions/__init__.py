"""Partitions: the rules for the nodes of each side."""
