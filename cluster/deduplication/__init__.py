"""Deduplication at exchanges: what the other nodes of a cluster have seen."""
