"""One node's use of a quorum queue, wherever the leader is."""
