"""Metrics for Prometheus, with the names of RabbitMQ's plugin."""
