"""The steps of a migration: plan, import, links, finish, roll-back.

Each can be repeated: what is there already is left as it is. The links are shovels of this node,
whether it is the source or the target, so the other broker needs no plugin. Nothing is deleted at
the source but, at the end, the parameters that the target has got. A roll-back sends all messages
back and leaves what was imported where it is.

RabbitMQ shows counts of messages up to five seconds late, so nothing counts as moved until two
looks, with that time between them, have shown it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import DATA_ERROR, failure
from leveret.mgmt.ctl.migrating.brokers import LEVERET, NOT_FOUND, MigrationBroker, OtherBroker
from leveret.mgmt.ctl.migrating.carrying_over import (
    LISTS,
    Definitions,
    Held,
    NotCarriedOver,
    select,
    take_out,
)
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
CHECKS_MAX: Final = 50
LATE_SECONDS: Final = 6.0
"""The interval of RabbitMQ's statistics, and one more."""
LEVERET_LATE_SECONDS: Final = 0.5


class Plan(NamedTuple):
    """What a migration will do. definitions: to be imported. changed: lines about objects of the
    target that the import changes, or leaves although they differ. kinds: the numbers of queues to
    be linked, by type. unlinked: the other queues, by the reason. messages, connections: how many
    the source has, and programs have there.
    """

    source: str
    target: str
    definitions: Definitions
    left_out: list[NotCarriedOver]
    held: list[Held]
    changed: list[str]
    kinds: Counter[str]
    unlinked: Counter[str]
    messages: int
    connections: int


class Look(NamedTuple):
    """What is where at one moment. links: the directions of the queues that are linked. values: the
    parameters of the links. shovels: their statuses. connections: those of programs at the source.
    delayed: messages that wait in exchanges of the broker that is to be emptied.
    """

    queues: list[QueueAtBoth]
    links: dict[Place, str]
    values: dict[Place, Any]
    shovels: dict[Place, dict[str, Any]]
    connections: list[str]
    delayed: int

    def left(self, *, is_returning: bool) -> int | None:
        """All messages that have to move; None while some number is unknown."""
        counts = [queue.left(is_returning=is_returning) for queue in self.queues]
        known = [count for count in counts if count is not None]
        return None if len(known) < len(counts) else sum(known)


class Migration:
    """A migration between this node and another broker."""

    def __init__(
        self, here: MigrationBroker, other: OtherBroker, state: MigrationState, run: OnlyRun
    ) -> None:
        self._here = here
        self._other = other
        self._run = run
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
        self._other.require_rights()
        chosen = select(self.source.get("definitions"))
        if self.source is self._other:
            self._other.require_access(one["vhost"] for one in chosen.definitions["queues"])
        left_out = [*chosen.left_out, *self._missing_plugins()]
        changed: list[str] = []
        if self.target is self._here:
            refused, changed = self._checked(chosen.definitions)
            left_out += refused
        imported = {(one["vhost"], one["name"]) for one in chosen.definitions["queues"]}
        kinds: Counter[str] = Counter()
        unlinked: Counter[str] = Counter()
        queues = self.source.queues()
        for place, source in queues.items():
            target = source if place in imported else None
            obstacle = QueueAtBoth(place, source, target).obstacle
            if obstacle:
                unlinked[obstacle] += 1
            else:
                kinds[source.kind] += 1
        return Plan(
            f"{self.source.version()} at {self.source.place}",
            f"{self.target.version()} at {self.target.place}",
            chosen.definitions, left_out, chosen.held, changed, kinds, unlinked,
            sum(one.messages or 0 for one in queues.values()), len(self.source.connections()),
        )  # fmt: skip

    def _missing_plugins(self) -> list[NotCarriedOver]:
        found = []
        for name in sorted(self.source.plugins() - self.target.plugins()):
            if self.target is self._other:
                reason = "it does not run at the target"
                found.append(
                    NotCarriedOver(f"plugin {name}", reason, f"rabbitmq-plugins enable {name}")
                )
            elif PLUGINS.get(name) is not None:
                reason = "it is not enabled at the target"
                found.append(
                    NotCarriedOver(f"plugin {name}", reason, f"leveret-plugins enable {name}")
                )
            else:
                reason = "Leveret does not know it, and what it declares may be refused"
                found.append(NotCarriedOver(f"plugin {name}", reason))
        return found

    def _checked(self, definitions: Definitions) -> tuple[list[NotCarriedOver], list[str]]:
        """Take out what this node refuses; also returns what the import changes here."""
        left_out: list[NotCarriedOver] = []
        for _ in range(CHECKS_MAX):
            query = {"dry_run": "true"}
            found = self._here.ask("POST", "definitions", body=definitions, query=query)
            if not found["problems"]:
                return left_out, list(_changed_lines(found["changes"]))
            try:
                left_out += take_out(definitions, found["problems"])
            except ValueError as error:
                raise failure(f"the definitions cannot be imported: {error}", DATA_ERROR) from None
        raise failure("the definitions have new problems after each correction", DATA_ERROR)

    def import_definitions(self, plan: Plan) -> list[NotCarriedOver]:
        """Import them; returns what the other broker has refused, which the plan could not know."""
        self.state = replace(self.state, held=tuple(plan.held), cluster=self._other.cluster())
        self._go_to(STARTED)
        refused: list[NotCarriedOver] = []
        # It says how passwords without an algorithm are hashed.
        version = {name: value for name, value in plan.definitions.items() if name not in LISTS}
        for name in LISTS:
            items = plan.definitions[name]
            for start in range(0, len(items), SLICE):
                refused += self._import_some(version, name, items[start : start + SLICE])
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
        targets = self.target.queues()
        queues = [
            QueueAtBoth(place, source, targets.get(place))
            for place, source in sorted(self.source.queues().items())
        ]
        links, values = {}, {}
        for one in self._here.get("parameters", SHOVEL):
            if one["name"].startswith(NAME_PREFIX):
                place = one["vhost"], one["value"]["src-queue"]
                links[place] = self._direction(one["value"])
                values[place] = one["value"]
        names = {(vhost, link_name(queue)): (vhost, queue) for vhost, queue in links}
        shovels = {
            names[one["vhost"], one["name"]]: one
            for one in self._here.get("shovels")
            if (one.get("vhost"), one["name"]) in names
        }
        emptied = self.target if self.is_returning else self.source
        return Look(queues, links, values, shovels, self.source.connections(), emptied.delayed())

    def _direction(self, value: dict[str, Any]) -> str:
        is_from_here = value["src-uri"].startswith("amqp:///")
        return FORWARD if is_from_here == (self.source is self._here) else BACKWARD

    def adjust(self, look: Look) -> None:
        """Set and delete links, as what is where requires."""
        self._run.renew()
        wanted = wanted_links(
            look.queues, look.links, self.state.links_max, is_returning=self.is_returning
        )
        for place in look.links.keys() - wanted.keys():
            self._unlink(place)
        streams = {queue.place for queue in look.queues if queue.is_stream}
        for place, direction in wanted.items():
            vhost, queue = place
            value = link_value(
                queue, direction, self.source.uri(vhost), self.target.uri(vhost),
                is_stream=place in streams,
            )  # fmt: skip
            if look.values.get(place) != value:
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
        emptied = self.target if self.is_returning else self.source
        return LEVERET_LATE_SECONDS if emptied.version().startswith(LEVERET) else LATE_SECONDS

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
            listed = "\n".join(f"    {one}" for one in users[:20])
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
        for place in self.look().links:
            self._unlink(place)
        _wait_until(self._no_link_runs)

    def _no_link_runs(self) -> bool:
        self._run.renew()
        return not any(one["name"].startswith(NAME_PREFIX) for one in self._here.get("shovels"))


def _parameter(broker: MigrationBroker, component: str, vhost: str, name: str) -> Any:
    """The value of a parameter; None if there is none."""
    try:
        return broker.get("parameters", component, vhost, name)["value"]
    except HttpError as error:
        if error.status != NOT_FOUND:
            raise
        return None


def _changed_lines(changes: Iterable[dict[str, Any]]) -> Iterable[str]:
    for change in changes:
        if change["action"] == "add":
            continue
        where = f" in vhost '{change['vhost']}'" if change.get("vhost") else ""
        what = f"{change['kind']} '{change['name']}'{where}"
        reason = change.get("reason") or f"gets {', '.join(change['to'])} of the source"
        yield f"{what}: {reason}"


def _wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(LEVERET_LATE_SECONDS)
