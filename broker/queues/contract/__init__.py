"""What channels, virtual hosts and management know of a queue of any kind."""
