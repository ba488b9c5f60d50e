"""Copies of retained messages on all nodes of a cluster."""
