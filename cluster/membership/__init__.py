"""Membership: which nodes belong to a cluster, and which of them may start first."""
