"""Tracing: sinks that receive the publishes, deliveries and settlements of a virtual host."""
