"""What exchanges match, and routes, found to the end."""

from leveret.broker.exchanges.router import WORK_AT_ONCE, Route


def matched(table, routing_key, header):
    """The destinations that a message matches at an exchange, as often as they are found."""
    return [found for found in table.route(routing_key, header) if found is not None]


def looked_at(table, routing_key, header):
    """How many steps the matching has."""
    return len(list(table.route(routing_key, header)))


def route(exchange, routing_keys, header):
    """The complete route of a message."""
    found = Route(exchange, routing_keys, header)
    while not found.go_on(WORK_AT_ONCE):
        pass
    return found
