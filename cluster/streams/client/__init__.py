"""A node's use of streams, which may have their members on other nodes."""
