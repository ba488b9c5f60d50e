"""Erlang terms, which RabbitMQ's texts often contain: formatting, parsing and hashing. Pure."""
