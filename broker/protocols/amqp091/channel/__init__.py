"""Channels: sessions that write frames, and a module for the methods of each AMQP class."""
