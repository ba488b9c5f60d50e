"""Erlang terms, which RabbitMQ's texts are full of: their text, parsing and hash. Pure."""
