"""Stand-ins for what the parts of a connection need: the services of a node, and a socket."""

from types import SimpleNamespace

from leveret.broker.config import Config
from leveret.broker.resources.alarms import Alarms
from leveret.broker.resources.flow import FlowControl
from leveret.broker.resources.unread_sockets import UnreadSockets
from leveret.broker.runtime.turns import WORK_MAX, Turns
from leveret.broker.runtime.virtual_clock import VirtualClock


class FakeTurns(Turns):
    """Rounds that pass by `end_round` only."""

    def __init__(self):
        self.rounds = 0
        self.work_left = WORK_MAX
        self.dirty, self.after = [], []

    def flush_later(self, flushable):
        flushable.is_dirty = True
        self.dirty.append(flushable)

    def after_round(self, callback):
        self.after.append(callback)

    def end_round(self):
        self.rounds += 1
        dirty, self.dirty = self.dirty, []
        for flushable in dirty:
            flushable.is_dirty = False
            flushable.flush()
        after, self.after = self.after, []
        for callback in after:
            callback()


class Socket:
    """A transport: what was written, and whether it is read, closed or aborted."""

    def __init__(self):
        self.written, self.is_read, self.ended = [], True, ""
        self.unsent_bytes = 0

    def get_extra_info(self, name):
        return None

    def set_write_buffer_limits(self, high, low):
        pass

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def write(self, data):
        self.written.append(data)

    def writelines(self, pieces):
        self.written += pieces

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def close(self):
        self.ended = "closed"

    def abort(self):
        self.ended = "aborted"


def make_services(**settings):
    """Services of a node on which nothing happens."""
    alarms = Alarms()
    return SimpleNamespace(
        config=Config(**settings),
        clock=VirtualClock(),
        turns=FakeTurns(),
        alarms=alarms,
        unread_sockets=UnreadSockets(),
        flow=FlowControl(alarms),
        holds_confirms=False,
    )
