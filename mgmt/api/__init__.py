"""The HTTP API: RabbitMQ's, and what Leveret adds to it. Each file has one resource's routes."""
