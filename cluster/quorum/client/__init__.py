"""A quorum queue as one node uses it, wherever the leader is."""
