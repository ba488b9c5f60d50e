"""Erlang terms, which RabbitMQ's texts are full of: formatting them and parsing them. Pure."""
