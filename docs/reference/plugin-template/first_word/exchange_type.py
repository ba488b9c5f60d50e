"""The exchange type: a binding with the key `red` gets messages with `red`, `red car`, `red 7`."""

from leveret.broker.exchanges.direct import Direct


class FirstWord(Direct):
    """A direct exchange for the first word of the routing key."""

    name = "x-first-word"

    def route(self, routing_key, header):
        return super().route(routing_key.partition(" ")[0], header)
