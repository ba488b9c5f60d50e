"""Turns that are taken when a test says so."""

from leveret.broker.runtime.turns import WORK_MAX, Turns


class TurnsByHand(Turns):
    """Actors that are woken wait until `run`. woken: those that wait."""

    def __init__(self):
        self.woken = []
        self.now_ms = 0
        self.work_left = WORK_MAX

    def wake(self, actor):
        if not actor.is_awake:
            actor.is_awake = True
            self.woken.append(actor)

    def run_round(self):
        """Give a turn to each actor that waits now."""
        woken, self.woken = self.woken, []
        for actor in woken:
            self._give_turn(actor)

    def run(self):
        """Give turns until no actor waits."""
        while self.woken:
            self._give_turn(self.woken.pop(0))
        self.work_left = WORK_MAX

    def _give_turn(self, actor):
        actor.is_awake = False
        self.work_left = WORK_MAX
        actor.take_turn()
