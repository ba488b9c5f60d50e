"""Events about alarms. Facts: RabbitMQ's `rabbit_alarm`."""

from leveret.broker.events.events import Events
from leveret.broker.resources.alarms import Alarms


class AlarmEvents:
    """Emits an event for each alarm that is set or cleared."""

    def __init__(self, events: Events, alarms: Alarms) -> None:
        self._events = events
        self._alarms = alarms
        self._sources: set[str] = set()
        alarms.listen(self._alarms_changed)

    def _alarms_changed(self) -> None:
        sources = set(self._alarms.sources)
        came, went = sources - self._sources, self._sources - sources
        self._sources = sources
        if self._events.are_wanted:
            for name, changed in (("alarm.set", came), ("alarm.cleared", went)):
                for source in sorted(changed):
                    self._events.notify(name, {"source": source, "node": self._events.node})
