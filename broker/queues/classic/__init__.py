"""Classic queues: a queue of one node over a backing queue of the store."""
