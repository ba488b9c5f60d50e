"""Connects the quorum queues that are declared on a node with their groups."""
