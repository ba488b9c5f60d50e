"""Queues that live on other nodes."""
