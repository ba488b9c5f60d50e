"""Sockets of any protocol: listeners, TLS, and when a connection is read."""
