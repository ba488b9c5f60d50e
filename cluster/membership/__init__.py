"""Membership: the nodes of a cluster, and which of them may start first."""
