"""Delayed retries of classic queues, and their delivery limit."""
