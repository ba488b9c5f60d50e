"""The log of the node: one append-only sequence of records for all queues."""
