"""Analyses of this node's trace logs that run beside it, for its web pages."""
