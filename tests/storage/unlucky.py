"""Chance at its worst: a power cut with it takes everything that it may take."""

import random


class Unlucky(random.Random):
    """Always draws the lowest number."""

    def random(self):
        return 0.0

    def randint(self, lowest, highest):
        return lowest
