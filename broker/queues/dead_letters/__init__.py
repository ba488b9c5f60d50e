"""What queues do with messages that expire, exceed a limit or are rejected."""
