"""RabbitMQ's stream protocol: frames."""
