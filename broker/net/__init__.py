"""Sockets of any protocol: listeners, TLS, and when to read a connection."""
