"""Metadata: every node of a cluster has all declarations, applied in one order."""
