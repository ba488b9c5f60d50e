"""Connections of the node to other AMQP 0-9-1 servers."""
