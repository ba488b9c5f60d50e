"""The steps of a migration: import, links, finish, roll-back.

Each can be repeated: what is there already is left as it is. The links are shovels of this node,
whether it is the source or the target, so the other broker needs no plugin. Nothing is deleted at
the source but, at the end, the parameters that the target has got. A roll-back sends all messages
back and leaves what was imported where it is.

RabbitMQ shows counts of messages up to five seconds late, so nothing counts as moved until two
looks, with that time between them, have shown it.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import failure
from leveret.mgmt.ctl.migrating.brokers import NOT_FOUND, MigrationBroker
from leveret.mgmt.ctl.migrating.carrying_over import LISTS, Definitions, NotCarriedOver
from leveret.mgmt.ctl.migrating.links import (
    BACKWARD,
    FORWARD,
    NAME_PREFIX,
    Place,
    QueueAtBoth,
    link_name,
    link_value,
    wanted_links,
)
from leveret.mgmt.ctl.migrating.look import IdleLinks, Look, MigrationLinks
from leveret.mgmt.ctl.migrating.other_broker import OtherBroker
from leveret.mgmt.ctl.migrating.plan import Plan, make_plan
from leveret.mgmt.ctl.migrating.state import (
    BACK,
    ENDED,
    FINISH,
    IMPORTED,
    RETURNING,
    ROLL_BACK,
    STARTED,
    MigrationState,
    OnlyRun,
    store,
)
from leveret.mgmt.ctl.wording import in_words

SHOVEL: Final = "shovel"
SLICE: Final = 1000
"""Items of definitions in one request, which takes no longer however many there are."""
LISTED_MAX: Final = 20
"""Queues or programs that an error names."""
LOOK_SECONDS: Final = 0.5
STOP_SECONDS: Final = 60
"""A link stops within 20 seconds, even if its other end does not answer."""


Tell = Callable[[int, int], object]


def _nothing(_done: int, _total: int) -> None:
    """Ignore the progress."""


class Migration:
    """A migration between this node and another broker."""

    def __init__(
        self, here: MigrationBroker, other: OtherBroker, state: MigrationState, run: OnlyRun
    ) -> None:
        self._here = here
        self._other = other
        self._run = run
        self._idle = IdleLinks()
        self.state = state
        brokers: tuple[MigrationBroker, MigrationBroker] = (other, here)
        self.source, self.target = brokers[::-1] if state.way == BACK else brokers

    @property
    def is_returning(self) -> bool:
        """It is being rolled back."""
        return self.state.step == RETURNING

    def _go_to(self, event: str) -> None:
        state = self.state.after(event)
        store(self._here, state)
        self.state = state

    # Plan and import

    def plan(self) -> Plan:
        """Find what the migration will do. Nothing is changed."""
        return make_plan(self.source, self.target, self._other)

    def import_definitions(self, plan: Plan, tell: Tell = _nothing) -> list[NotCarriedOver]:
        """Import them; returns what the other broker has refused, which the plan could not know.

        tell: called with the number of those that are imported, and of all.
        """
        self.state = replace(self.state, held=tuple(plan.held), cluster=self._other.cluster())
        self._go_to(STARTED)
        refused: list[NotCarriedOver] = []
        # It says how passwords without an algorithm are hashed.
        version = {name: value for name, value in plan.definitions.items() if name not in LISTS}
        done, total = 0, sum(len(plan.definitions[name]) for name in LISTS)
        for name in LISTS:
            items = plan.definitions[name]
            for start in range(0, len(items), SLICE):
                some = items[start : start + SLICE]
                refused += self._import_some(version, name, some)
                done += len(some)
                tell(done, total)
                self._run.renew()
        if self.target is self._other:
            self._other.require_access(one["vhost"] for one in plan.definitions["queues"])
        self._go_to(IMPORTED)
        return refused

    def _import_some(
        self, version: Definitions, name: str, items: list[dict[str, Any]]
    ) -> list[NotCarriedOver]:
        """Import items of a list; halves of them, if they are refused, down to the item itself."""
        try:
            self.target.ask("POST", "definitions", body={**version, name: items})
        except HttpError as error:
            if error.status != 400:
                raise
            if len(items) == 1:
                what = f"{LISTS[name]} {items[0].get('name', items[0])!r}"
                return [NotCarriedOver(what, in_words(error.reason))]
            middle = len(items) // 2
            first, second = items[:middle], items[middle:]
            return [
                one for some in (first, second) for one in self._import_some(version, name, some)
            ]
        return []

    # Links

    def resume(self) -> None:
        """Go on with a migration that has been broken off, or that was being rolled back."""
        self._go_to(STARTED)

    def look(self) -> Look:
        """Ask both brokers."""
        links = self._links()
        targets = self.target.queues()
        queues = [
            QueueAtBoth(place, source, targets.get(place))
            for place, source in sorted(self.source.queues().items())
        ]
        emptied = self.target if self.is_returning else self.source
        return Look(queues, links, self.source.connections(), emptied.delayed())

    def make_room(self, look: Look) -> Look:
        """Have idle links make room for those of other queues; returns what is where then, as far
        as the links tell it.
        """
        links = self._links()
        look = look.with_links(links, self._idle.found(links, time.monotonic()))
        if len(links.directions) >= self.state.links_max:
            self.adjust(look)
        return look

    def _links(self) -> MigrationLinks:
        directions, values = {}, {}
        for one in self._here.get("parameters", SHOVEL):
            if one["name"].startswith(NAME_PREFIX):
                place = one["vhost"], one["value"]["src-queue"]
                directions[place] = self._direction(one["value"])
                values[place] = one["value"]
        names = {(vhost, link_name(queue)): (vhost, queue) for vhost, queue in directions}
        shovels = {
            names[one["vhost"], one["name"]]: one
            for one in self._here.get("shovels")
            if (one.get("vhost"), one["name"]) in names
        }
        return MigrationLinks(directions, values, shovels)

    def _direction(self, value: dict[str, Any]) -> str:
        is_from_here = value["src-uri"].startswith("amqp:///")
        return FORWARD if is_from_here == (self.source is self._here) else BACKWARD

    def adjust(self, look: Look) -> None:
        """Set and delete links, as what is where requires."""
        self._run.renew()
        wanted = wanted_links(
            look.queues, look.links.directions, look.links.failing, self.state.links_max,
            is_returning=self.is_returning,
        )  # fmt: skip
        for place in look.links.directions.keys() - wanted.keys():
            self._unlink(place)
        streams = {queue.place for queue in look.queues if queue.is_stream}
        for place, direction in wanted.items():
            vhost, queue = place
            value = link_value(
                queue, direction, self.source.uri(vhost), self.target.uri(vhost),
                is_stream=place in streams,
            )  # fmt: skip
            if look.links.values.get(place) != value:
                self._here.put_parameter(SHOVEL, vhost, link_name(queue), value)

    def _unlink(self, place: Place) -> None:
        vhost, queue = place
        self._here.delete("parameters", SHOVEL, vhost, link_name(queue))

    def is_done(self, look: Look) -> bool:
        """Nothing is left where it should not be, and no program uses that broker."""
        if look.delayed or look.left(is_returning=self.is_returning) != 0:
            return False
        if self.is_returning:
            return not any(
                queue.target.consumers
                for queue in look.queues
                if queue.target is not None and not queue.obstacle and not queue.is_stream
            )
        return not look.connections and not any(one.source.consumers for one in look.queues)

    def late_s(self) -> float:
        """How late the counts of the broker that is emptied may be, in seconds."""
        return (self.target if self.is_returning else self.source).late_s()

    # Ends

    def finish(self, *, also_connected: bool) -> list[str]:
        """Remove the links once nothing is left; returns what was not handed over.

        also_connected: although programs are still connected to the source. Raises CtlError if
        something is left; the links then stay.
        """
        self.state = replace(self.state, has_handed_over=True)
        self._go_to(FINISH)
        kept = self._hand_over(self.source, self.target)
        for _ in range(2):
            look = self._look_at_counted()
            self._require_done(look, also_connected=also_connected)
            time.sleep(self.late_s())
        self._remove_links()
        look = self.look()
        if look.left(is_returning=False) != 0:
            self.adjust(look)
            raise failure("messages have arrived at the source meanwhile and are moved: try again")
        self._go_to(ENDED)
        return kept

    def _look_at_counted(self) -> Look:
        """Look, and once more if messages seem to be left: their count may be late."""
        look = self.look()
        self.adjust(look)
        if look.left(is_returning=self.is_returning) == 0:
            return look
        time.sleep(self.late_s())
        return self.look()

    def _require_done(self, look: Look, *, also_connected: bool) -> None:
        left = look.left(is_returning=False)
        stuck = [one for one in look.queues if one.obstacle and one.left(is_returning=False)]
        if stuck:
            listed = "\n".join(
                f"    queue '{one.place[1]}' in vhost '{one.place[0]}', "
                f"{one.source.messages} messages: {one.obstacle}"
                for one in stuck[:LISTED_MAX]
            )
            raise failure(
                f"queues of {self.source.place} have messages that no link moves: let their "
                f"programs consume them, or purge or delete them there:\n{listed}"
            )
        if left != 0:
            number = "an unknown number of" if left is None else left
            raise failure(
                f"{number} messages are left at {self.source.place}: the links go on moving them, "
                "and 'leveretctl migration_status' shows where they are"
            )
        if look.delayed:
            raise failure(
                f"{look.delayed} messages are delayed in exchanges of {self.source.place}: they "
                "come to its queues, and are moved, when they are due"
            )
        if not also_connected and not self.is_done(look):
            users = look.connections or [
                f"a consumer of queue '{one.place[1]}' in vhost '{one.place[0]}'"
                for one in look.queues
                if one.source.consumers
            ]
            listed = "\n".join(f"    {one}" for one in users[:LISTED_MAX])
            raise failure(
                f"{len(users)} programs use {self.source.place}. Move them, or finish with "
                f"--force:\n{listed}"
            )

    def start_roll_back(self) -> list[str]:
        """Reverse the links; returns what was not handed back."""
        self._go_to(ROLL_BACK)
        kept = self._hand_over(self.target, self.source) if self.state.has_handed_over else []
        self.adjust(self.look())
        return kept

    def end_roll_back(self) -> list[QueueAtBoth]:
        """Remove the links, as nothing is left at the target; returns streams that have more
        messages there than at the source.
        """
        self._remove_links()
        look = self.look()
        if look.left(is_returning=True) != 0:
            self.adjust(look)
            raise failure("messages have arrived at the target meanwhile and are moved: try again")
        self._go_to(ENDED)
        return [
            one for one in look.queues
            if one.is_stream and one.target is not None
            and (one.target.messages or 0) > (one.source.messages or 0)
        ]  # fmt: skip

    def _hand_over(self, giver: MigrationBroker, taker: MigrationBroker) -> list[str]:
        """Give the held parameters to a broker, and then remove them from the other one.

        For a moment both have them, since a message can then arrive twice but none is lost. Returns
        those that the taker has with another value, or refuses.
        """
        kept = []
        for component, vhost, name in self.state.held:
            value = _parameter(giver, component, vhost, name)
            if value is None:
                continue
            there = _parameter(taker, component, vhost, name)
            if there is not None and there != value:
                what = f"{component} '{name}' in vhost '{vhost}'"
                kept.append(f"{what}: {taker.place} has another value")
                continue
            try:
                taker.put_parameter(component, vhost, name, value)
            except HttpError as error:
                if error.status != 400:
                    raise
                kept.append(f"{component} '{name}' in vhost '{vhost}': {in_words(error.reason)}")
                continue
            giver.delete("parameters", component, vhost, name)
        return kept

    def _remove_links(self) -> None:
        """Delete all links, and wait until none moves messages."""
        for place in self._links().directions:
            self._unlink(place)
        end_s = time.monotonic() + STOP_SECONDS
        while found := self._running_links():
            if time.monotonic() > end_s:
                raise failure(
                    f"{len(found)} links do not stop, such as the shovel '{found[0]}': look at the "
                    "log of their node"
                )
            time.sleep(LOOK_SECONDS)

    def _running_links(self) -> list[str]:
        self._run.renew()
        names = [one["name"] for one in self._here.get("shovels")]
        return [name for name in names if name.startswith(NAME_PREFIX)]


def _parameter(broker: MigrationBroker, component: str, vhost: str, name: str) -> Any:
    """The value of a parameter; None if there is none."""
    try:
        return broker.get("parameters", component, vhost, name)["value"]
    except HttpError as error:
        if error.status != NOT_FOUND:
            raise
        return None
