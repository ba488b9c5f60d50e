"""Federation: exchanges and queues that get messages from other brokers, over links."""
