"""The entries of Raft groups in the node's log, their snapshots, and log files kept for them."""
