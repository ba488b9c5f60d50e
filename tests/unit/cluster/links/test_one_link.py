"""Exactly one link a pair: all orders of events of two nodes that dial each other at once.

The model has two connections, one dialled by each node. A message on a connection arrives in the
order of that connection, and connections are independent. Every reachable state is visited.
"""

from dataclasses import dataclass, replace

from leveret.cluster.links.one_link import LinkDecision, decide

NAMES = ("a@host", "b@host")


@dataclass(frozen=True)
class Side:
    """A node's view. link: the connection, named by its dialler, that is its link. dial: how far
    its own connection is: hello, proven (its proof is sent), gone.
    """

    link: int | None = None
    dial: str = "hello"


@dataclass(frozen=True)
class World:
    """sides: of both nodes. flying: messages by (connection, receiver), in order."""

    sides: tuple[Side, Side]
    flying: tuple[tuple[int, int, tuple[str, ...]], ...]

    def queue(self, connection, receiver):
        return next((m for c, r, m in self.flying if (c, r) == (connection, receiver)), ())

    def put(self, connection, receiver, message):
        return self._with(connection, receiver, (*self.queue(connection, receiver), message))

    def _with(self, connection, receiver, messages):
        others = tuple(one for one in self.flying if one[:2] != (connection, receiver))
        entry = ((connection, receiver, messages),) if messages else ()
        return replace(self, flying=tuple(sorted(others + entry)))

    def take(self, connection, receiver):
        messages = self.queue(connection, receiver)
        return messages[0], self._with(connection, receiver, messages[1:])

    def change(self, node, **fields):
        sides = list(self.sides)
        sides[node] = replace(sides[node], **fields)
        return replace(self, sides=tuple(sides))


def give_up_dial(world, node):
    """The node closes the connection that it dialled, unless that is over."""
    if world.sides[node].dial == "gone":
        return world
    return world.change(node, dial="gone").put(node, 1 - node, "closed")


def received(world, connection, node):
    """What a node does with the next message on a connection."""
    message, world = world.take(connection, node)
    other, side = 1 - node, world.sides[node]
    if connection == node:
        if side.dial == "gone":
            return world
        if message == "hello":
            return world.change(node, dial="proven").put(connection, other, "proof")
        if message == "accepted":
            assert side.link is None, "a dialler never has another link when it is accepted"
            return world.change(node, dial="gone", link=connection)
        return world.change(node, dial="gone")
    if message == "closed":
        assert side.link != connection, "a connection that became a link is not given up"
        return world
    decision = decide(
        NAMES[node],
        NAMES[other],
        own_proof_sent=side.dial == "proven",
        is_linked=side.link is not None,
    )
    # The link of the model always gives a sign of life.
    if decision is not LinkDecision.ACCEPT:
        return world.put(connection, other, "refused")
    world = give_up_dial(world, node)
    return world.change(node, link=connection).put(connection, other, "accepted")


def test_simultaneous_dialling_leaves_one_link_in_every_order_of_events():
    start = World((Side(), Side()), ((0, 0, ("hello",)), (1, 1, ("hello",))))
    seen, waiting, ends = {start}, [start], []
    while waiting:
        world = waiting.pop()
        if not world.flying:
            ends.append(world)
        for connection, receiver, _ in world.flying:
            following = received(world, connection, receiver)
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    assert len(seen) > 20
    assert {(one.sides[0].link, one.sides[1].link) for one in ends} == {(0, 0), (1, 1)}


def test_a_connection_to_a_linked_node_waits_for_a_sign_of_life():
    for own, peer in (NAMES, NAMES[::-1]):
        for own_proof_sent in (False, True):
            decision = decide(own, peer, own_proof_sent=own_proof_sent, is_linked=True)
            assert decision is LinkDecision.PROBE


def test_only_the_greater_name_refuses():
    assert decide(*NAMES, own_proof_sent=True, is_linked=False) is LinkDecision.ACCEPT
    assert decide(*NAMES[::-1], own_proof_sent=True, is_linked=False) is LinkDecision.REFUSE
    assert decide(*NAMES[::-1], own_proof_sent=False, is_linked=False) is LinkDecision.ACCEPT
