"""A node of the simulated cluster: the machines, a disk, and what a service does with outputs.

A crash loses what was not on disk. A pause holds everything that comes until the node goes on, and
then tells the machine that it was suspended, as the service will when its clock has jumped. What
the machine then sends for a link that is over is lost, also if there is another link by then.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from leveret.cluster.membership.start_order import MayStart, StartOrder
from leveret.cluster.metadata.messages import (
    NO_VIEW,
    RUNNING,
    STARTING,
    Accept,
    AnyMessage,
    Install,
    LogEntry,
    View,
    ViewMember,
    ViewStart,
    decode,
    encode,
)
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outputs import (
    FAILED,
    AnswerClient,
    Apply,
    CheckSubmission,
    Discarded,
    Output,
    PartitionedFrom,
    Pause,
    Restart,
    SendInstall,
    SendMessage,
    ViewInstalled,
    WriteCompanions,
    WritePromise,
)
from leveret.cluster.metadata.replication import MetadataReplication, ReplicationLimits
from leveret.cluster.partitions.rules import MayGoOn
from tests.sim.properties import Applied, History, require
from tests.sim.world import TICK, TICK_TIME, Endpoint, Events

KEPT = 12
LIMITS = ReplicationLimits(window=8, in_flight_max=4, pending_max=30, fence_ticks=8)
Written = Apply | ViewInstalled | WriteCompanions | WritePromise
"""What goes to the disk."""
_entries = msgspec.msgpack.Decoder(tuple[LogEntry, ...])


class Disk:
    """What a node finds after a restart."""

    def __init__(self) -> None:
        self.applied = Applied()
        self.starts: tuple[ViewStart, ...] = ()
        self.view: View | None = None
        self.companions: frozenset[str] = frozenset()
        self.takes_from: tuple[str, ...] = ()
        self.promised = NO_VIEW

    def write(self, output: Written) -> None:
        """Carry out one transaction."""
        if isinstance(output, WritePromise):
            self.promised = output.view
            return
        if isinstance(output, WriteCompanions):
            self.companions = output.companions
            return
        if isinstance(output, Apply):
            self.applied.append(output.entry)
            return
        if output.snapshot is not None:
            self.applied = Applied(_entries.decode(output.snapshot))
        for entry in output.entries:
            self.applied.append(entry)
        self.starts, self.view, self.takes_from = output.starts, output.view, ()
        self.companions = output.companions

    def log(self) -> OrderedLog:
        """The log as it is on disk."""
        entries = self.applied.entries
        return OrderedLog(KEPT, self.starts, len(entries), entries[-KEPT:])


class SimulatedNode(Endpoint):
    """One node through all its runs.

    send: to another node. stopped: called when the node has to stop, with the reason.
    """

    def __init__(
        self,
        name: str,
        is_disc: bool,
        events: Events,
        history: History,
        cluster: frozenset[str],
        send: Callable[[str, str, object], None],
        may_go_on: MayGoOn,
        is_majority: MayGoOn | None,
    ) -> None:
        self.name = name
        self.is_disc = is_disc
        self.incarnation = 0
        self.is_alive = False
        self.is_paused = False
        self.disk = Disk()
        self.write_delay_max = 5
        self.machine: MetadataReplication | None = None
        self.applied = Applied()
        self.unanswered: set[object] = set()
        self.restarts: Callable[[SimulatedNode, tuple[str, ...]], None] = lambda node, names: None
        self.pauses: Callable[[SimulatedNode, tuple[str, ...]], None] = lambda node, names: None
        self.partitioned_from: tuple[str, ...] = ()
        self._events = events
        self._history = history
        self._cluster = cluster
        self._send = send
        self._may_go_on = may_go_on
        self._is_majority = is_majority
        self._inbox: deque[Callable[[], list[Output]]] = deque()
        self._to_write: deque[Written] = deque()
        self._links_up: dict[str, int] = {}
        self._links_seen: dict[str, int] = {}
        self._start_order: StartOrder | None = None
        self._was_paused_at = 0
        self._forms_from = 0
        self._gave_way_to: tuple[str, ...] = ()

    # Life and death

    def start(self, *, is_forced: bool = False) -> None:
        """A new run begins from the disk."""
        takes_from = self.disk.takes_from
        self.incarnation += 1
        self.is_alive, self.is_paused = True, False
        if not self.is_disc:
            kept, self.disk = self.disk, Disk()
            self.disk.takes_from, self.disk.companions = takes_from, kept.companions
            self.disk.promised = kept.promised
        self.applied = Applied(self.disk.applied.entries)
        self.partitioned_from = ()
        me = ViewMember(self.name, self.incarnation, self.is_disc)
        machine = MetadataReplication(
            me,
            self.disk.log(),
            self.disk.view,
            self._cluster,
            LIMITS,
            takes_from,
            self._may_go_on,
            self.disk.companions,
            self.disk.promised,
        )
        self.machine = machine
        known = self.disk.companions if self.is_disc else self._cluster
        self._start_order = StartOrder(
            machine.views.status(), known, is_forced=is_forced, is_majority=self._is_majority,
            waits_max=None, wait_ms=TICK,
        )  # fmt: skip
        self._events.note(self.name, "starts as", self.incarnation, machine.log.position)
        self._later_for_this_run(1, self._tick)

    def give_way(self, takes_from: tuple[str, ...]) -> None:
        """The node is to restart, and to take everything from one of these."""
        self._gave_way_to = takes_from
        self.disk.takes_from = takes_from

    def crash(self) -> None:
        """The process is gone, with all that it has not written."""
        self._events.note(self.name, "crashes")
        self.is_alive, self.is_paused, self.machine = False, False, None
        self._inbox.clear()
        self._to_write.clear()
        self.unanswered.clear()

    def pause(self) -> None:
        """The process is suspended."""
        self._events.note(self.name, "is suspended")
        self.is_paused = True
        self._was_paused_at = self._events.now

    def resume(self) -> None:
        """The process goes on."""
        self._events.note(self.name, "goes on")
        self.is_paused = False
        if self._events.now - self._was_paused_at > TICK_TIME // 2 and self.machine is not None:
            self._inbox.appendleft(self.machine.suspended)
        while self._inbox and not self.is_paused and self.machine is not None:
            self._carry_out(self._inbox.popleft()())

    def _later_for_this_run(self, delay: int, act: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def guarded() -> None:
            if self.is_alive and self.incarnation == incarnation:
                act()

        self._events.later(delay, guarded)

    def _tick(self) -> None:
        if not self.is_paused:
            assert self.machine is not None
            self._step(self.machine.tick)
        self._later_for_this_run(TICK, self._tick)

    @property
    def is_running(self) -> bool:
        """Whether it is in a view in this run."""
        return self.machine is not None and self.machine.views.phase == RUNNING

    # Inputs

    def linked(self, name: str, incarnation: int) -> None:
        """A link with a node is up."""
        self._events.note(self.name, "has a link with", name, incarnation)
        machine, number = self.machine, self._links_up.get(name, 0) + 1
        self._links_up[name] = number

        def act() -> list[Output]:
            self._links_seen[name] = number
            return machine.linked(name, incarnation)

        self._step(act)

    def unlinked(self, name: str) -> None:
        """The link with a node is down."""
        self._events.note(self.name, "lost the link with", name)
        machine = self.machine
        self._step(lambda: machine.unlinked(name))

    def receive(self, sender: str, item: bytes) -> None:
        """A message of a linked node has arrived."""
        machine = self.machine
        self._step(lambda: machine.received(sender, decode(item)))

    def submit(self, payload: bytes) -> None:
        """A client submits an operation."""
        if self.machine is None or self.is_paused:
            return
        submission, outputs = self.machine.submit(payload)
        self._events.note(self.name, "submits", submission.number)
        self.unanswered.add(submission)
        self._carry_out(outputs)

    def _step(self, act: Callable[[], list[Output]]) -> None:
        if self.is_paused or self._inbox:
            self._inbox.append(act)
        elif self.machine is not None:
            self._carry_out(act())

    # Outputs

    def _carry_out(self, outputs: list[Output]) -> None:
        todo, machine = deque(outputs), self.machine
        while todo and self.machine is machine is not None:
            todo.extendleft(reversed(self._carry_out_one(todo.popleft())))
        self._check_bounds()
        self._consider_start()

    def _carry_out_one(self, output: Output) -> list[Output]:
        machine = self.machine
        match output:
            case SendMessage():
                self._send_message(output.to, output.message)
            case SendInstall():
                snapshot = msgspec.msgpack.encode(self.applied.entries)
                install = msgspec.structs.replace(output.install, snapshot=snapshot)
                require(len(self.applied.entries) == install.base, "a snapshot of another state")
                self._send_message(output.to, install)
            case Apply():
                self._apply(output.entry)
                self._write(output)
            case ViewInstalled():
                self._install(output)
            case WriteCompanions() | WritePromise():
                self._write(output)
            case CheckSubmission():
                require(not machine.views.fence.is_up, "V9: a fenced node orders")
                is_refused = output.payload.endswith(b"7")
                return machine.checked(output, output.payload, is_refused)
            case AnswerClient():
                self._answer(output)
            case PartitionedFrom():
                self._events.note(self.name, "is partitioned from", output.names)
                self.partitioned_from = output.names
            case Discarded():
                self._events.note(self.name, "discards", output.first, "to", output.last)
            case Restart():
                self.restarts(self, output.takes_from)
            case Pause():
                self.pauses(self, output.members)
        return []

    def _send_message(self, receiver: str, message: AnyMessage) -> None:
        self._events.note(self.name, "->", receiver, message)
        if isinstance(message, Install):
            members = frozenset(message.view.names)
            require(members <= self.disk.companions, "V10: not companions on disk:", members)
        if isinstance(message, Accept | Install):
            view = message.view if isinstance(message, Accept) else message.view.id
            require(view <= self.disk.promised, "V1: not promised on disk:", view)
        if self._links_up.get(receiver) == self._links_seen.get(receiver):
            self._send(self.name, receiver, encode(message))

    def _apply(self, entry: LogEntry) -> None:
        self.applied.append(entry)
        self._history.applied(self.applied)

    def _install(self, output: ViewInstalled) -> None:
        self._events.note(self.name, "installs", output.view, "at", output.base)
        if output.snapshot is not None:
            self.applied = Applied(_entries.decode(output.snapshot))
        for entry in output.entries:
            self._apply(entry)
        self._check_way_given(output.view)
        self._history.installed(output.view, output.starts, self.applied)
        self._write(output)

    def _write(self, output: Written) -> None:
        self._to_write.append(output)
        machine = self.machine
        if not self.is_disc:
            self._later_for_this_run(
                0, lambda: self._step(lambda: machine.written(output.number, is_synced=False))
            )
        delay = self._events.random.randint(0, self.write_delay_max)
        self._later_for_this_run(delay, lambda: self._written(output))

    def _written(self, output: Written) -> None:
        """One sync writes everything up to an output."""
        if output not in self._to_write:
            return
        while True:
            written = self._to_write.popleft()
            self.disk.write(written)
            if written is output:
                break
        machine = self.machine
        self._step(lambda: machine.written(output.number))

    def _answer(self, output: AnswerClient) -> None:
        machine = self.machine
        self.unanswered.discard(output.submission)
        self._events.note(self.name, "answers", output.submission.number, output.outcome)
        view = machine.views.view
        if output.outcome != FAILED:
            require(not machine.views.fence.is_up, "V9: a fenced node answers", output)
        self._history.answered(output.submission, output.outcome, view, self.applied)

    def _check_way_given(self, view: View) -> None:
        """Who gives way runs next with one of those to whom it does, if one of them runs."""
        gave_way_to, self._gave_way_to = self._gave_way_to, ()
        if gave_way_to and set(gave_way_to).isdisjoint(view.names):
            running = [one for one in gave_way_to if self._history.nodes[one].is_running]
            require(not running, "it gave way to", running, "and runs with", view.names)

    # After each step

    def _check_bounds(self) -> None:
        machine = self.machine
        if machine is None:
            return
        require(len(machine.log.kept) <= KEPT, "V8: entries kept")
        require(len(machine.submissions) <= LIMITS.pending_max, "V8: submissions")
        if machine.ordering is not None:
            in_flight = LIMITS.in_flight_max * len(machine.views.view.members)
            require(len(machine.ordering) <= in_flight, "V8: submissions at the coordinator")
            ahead = machine.ordering.last - max(machine.ordering.stable, machine.ordering.base)
            require(ahead <= LIMITS.window, "V8: entries that not all have applied")

    def _consider_start(self) -> None:
        machine = self.machine
        if machine is None or machine.views.phase != STARTING or self._start_order is None:
            return
        peers = machine.views.peers.values()
        decision = self._start_order.decide(
            linked.status for linked in peers if linked.status is not None
        )
        if isinstance(decision, MayStart):
            if self._events.now < self._forms_from:
                return
            self._forms_from = self._events.now + TICK
            self._events.note(self.name, "starts with", decision.names)
            self._carry_out(machine.form(decision.names))
