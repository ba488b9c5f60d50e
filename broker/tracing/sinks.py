"""The sinks of each traced vhost, and the tracer that a vhost has while one of them listens.

A sink is a trace to files, or the firehose with something bound to its exchange. A vhost without a
listening sink has no tracer, so tracing costs nothing there.
"""

from collections.abc import Sequence

from leveret.broker.events.taps import Sink
from leveret.broker.runtime.message_numbers import MessageNumbers
from leveret.broker.tracing.firehose import Firehose
from leveret.broker.tracing.tracer import Tracer
from leveret.broker.vhost.virtual_host import VirtualHost


class Tracing:
    """The sinks of each vhost of a node."""

    def __init__(self, numbers: MessageNumbers, node: str) -> None:
        """numbers: the message numbers of the node. node: its name."""
        self._numbers = numbers
        self._node = node
        self._sinks: dict[VirtualHost, tuple[Sink, ...]] = {}

    def set_firehose(self, vhost: VirtualHost, is_on: bool) -> None:
        """Switch the firehose of a vhost on or off."""
        found = [sink for sink in self.sinks(vhost) if isinstance(sink, Firehose)]
        vhost.is_traced = is_on
        self._choose_tracer(vhost)
        if is_on and not found:
            self.attach(vhost, Firehose(vhost, self._node))
        elif found and not is_on:
            self.detach(vhost, found[0])

    def attach(self, vhost: VirtualHost, sink: Sink) -> None:
        """Add a sink to a vhost. It must not be attached yet."""
        self._set_sinks(vhost, [*self.sinks(vhost), sink])

    def detach(self, vhost: VirtualHost, sink: Sink) -> None:
        """Remove a sink from a vhost, if it is attached."""
        kept = [other for other in self.sinks(vhost) if other is not sink]
        if len(kept) < len(self.sinks(vhost)):
            self._set_sinks(vhost, kept)
            sink.detached()

    def forget_vhost(self, vhost: VirtualHost) -> None:
        """The vhost is deleted: remove its sinks."""
        for sink in self.sinks(vhost):
            self.detach(vhost, sink)
        vhost.is_traced = False

    def stop(self) -> None:
        """The node stops: remove all sinks."""
        for vhost in tuple(self._sinks):
            self.forget_vhost(vhost)

    def sinks(self, vhost: VirtualHost) -> tuple[Sink, ...]:
        """The sinks of a vhost, in the order in which they get reports."""
        return self._sinks.get(vhost, ())

    def _set_sinks(self, vhost: VirtualHost, sinks: Sequence[Sink]) -> None:
        if sinks:
            self._sinks[vhost] = tuple(sinks)
            vhost.routes_listener = lambda: self._choose_tracer(vhost)
        else:
            self._sinks.pop(vhost, None)
            vhost.routes_listener = None
        self._choose_tracer(vhost)

    def _choose_tracer(self, vhost: VirtualHost) -> None:
        """Give the vhost a tracer for the sinks that listen now, or none."""
        listening = tuple(sink for sink in self.sinks(vhost) if sink.is_listening)
        current = vhost.tracer.sinks if isinstance(vhost.tracer, Tracer) else ()
        if not listening:
            vhost.tracer = None
        elif listening != current:
            vhost.tracer = Tracer(self._numbers, listening, lambda sink: self.detach(vhost, sink))
