"""Metadata: small rows that are synced together with the log."""
