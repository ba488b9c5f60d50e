"""Parts of queues: dispatch to consumers, expiry, ages, counts, failed reads and flow control."""
