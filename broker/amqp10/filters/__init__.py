"""Filters of consumers of streams: AMQP Filter Expressions, of properties and in SQL. Pure."""
