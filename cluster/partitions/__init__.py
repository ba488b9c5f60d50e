"""Network partitions: the rules for each side, autoheal, and the files of discarded data."""
