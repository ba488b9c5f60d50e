"""The error with which a node refuses another node's request."""


class Refused(Exception):
    """A request is refused. The asking node gets the text: the reason and the remedy."""
