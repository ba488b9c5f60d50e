"""Channels: the actor between a connection and the queues, a file for each AMQP class."""
