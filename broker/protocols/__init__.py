"""Client protocols. Each translates between the bytes of its clients and their sessions."""
