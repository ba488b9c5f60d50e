"""The error of a node that refuses another node's request."""


class Refused(Exception):
    """A request is refused. The text, which the asking node gets, says why and what to do."""
