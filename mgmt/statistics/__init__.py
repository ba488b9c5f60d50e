"""What was counted, sampled over time."""
