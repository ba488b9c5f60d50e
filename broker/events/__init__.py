"""The events of a node: events for operators, taps for traces."""
