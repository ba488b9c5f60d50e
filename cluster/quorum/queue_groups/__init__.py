"""The quorum queues of a node's declarations, and the groups that keep them."""
