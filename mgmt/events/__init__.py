"""Events of the node for others: the audit log, the event exchange, the event stream."""
