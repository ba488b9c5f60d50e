"""Events about alarms. Facts: RabbitMQ's `rabbit_alarm`."""

from leveret.broker.events.events import Events
from leveret.broker.resources.alarms import Alarms


class AlarmEvents:
    """Emits an event for each alarm that is set or cleared, on this node or on another one."""

    def __init__(self, events: Events, alarms: Alarms) -> None:
        self._events = events
        self._alarms = alarms
        self._in_force: set[tuple[str, str]] = set()
        alarms.listen(self._alarms_changed)

    def _alarms_changed(self) -> None:
        by_node = {self._events.node: self._alarms.own, **self._alarms.of_others}
        in_force = {(source, node) for node, sources in by_node.items() for source in sources}
        came, went = in_force - self._in_force, self._in_force - in_force
        self._in_force = in_force
        if self._events.are_wanted:
            for name, changed in (("alarm.set", came), ("alarm.cleared", went)):
                for source, node in sorted(changed):
                    self._events.notify(name, {"source": source, "node": node})
