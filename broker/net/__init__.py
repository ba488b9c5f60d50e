"""Sockets: listeners, and the connection that turns bytes into method calls and back."""
