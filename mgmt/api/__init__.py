"""The HTTP API: RabbitMQ's, with additions. Each resource has a file with its routes."""
