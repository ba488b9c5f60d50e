"""The interfaces of queues of any kind for channels, virtual hosts and management."""
