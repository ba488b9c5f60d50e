"""Streams on the nodes of a cluster."""
