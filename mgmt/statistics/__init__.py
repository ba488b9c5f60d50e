"""Samples of the broker's counters, and the rates computed from them."""
