"""Used by every part of a node: clocks, long work in steps, names, delayed answers."""
