"""What a node answers that does not do what another one asks for."""


class Refused(Exception):
    """What was asked for is not done. The text says why and what to do; who asks is told it."""
