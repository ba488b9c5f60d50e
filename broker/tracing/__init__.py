"""Tracing: what is published, delivered and settled, told to whoever asked for it."""
