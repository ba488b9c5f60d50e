"""One broker: listeners, connections, channels, exchanges and queues."""
