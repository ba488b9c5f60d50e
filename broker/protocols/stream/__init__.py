"""RabbitMQ's stream protocol: connections, and the commands of their clients."""
