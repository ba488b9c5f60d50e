"""Tracing: sinks that receive what is published, delivered and settled in a virtual host."""
