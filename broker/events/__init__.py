"""What happens on a node: events for operators, taps for traces."""
