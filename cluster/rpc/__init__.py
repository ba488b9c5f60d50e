"""Questions that nodes ask each other, and their answers."""
