"""Protocols, each of which reads and writes what the sessions of its clients do."""
