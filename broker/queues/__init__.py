"""Queues: the actor that owns the messages, and the pure parts that decide for it."""
