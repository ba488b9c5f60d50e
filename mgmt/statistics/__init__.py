"""Samples of what the broker counts, and the rates that they give."""
