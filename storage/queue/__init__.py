"""Backing queues that page messages between memory and segments."""
