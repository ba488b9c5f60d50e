"""AMQP 1.0: the frames of clients, their sessions and their links."""
