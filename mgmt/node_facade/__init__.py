"""What management reads of a running node."""
