"""Which node a new queue is placed on."""
