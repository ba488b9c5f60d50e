"""A broker as the rest of management sees it: declarations, counts, and clients.

All modules of management reach the broker through this object. Objects and their figures are
returned as plain data, which may come from several processes of a node. The tables of declarations
are values that every node has. The last part has the acts of operators.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp.field_table import Table
from leveret.broker.auth.identity import Identity
from leveret.broker.config import Config
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.node.broker import Broker
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import effective_options, merged
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.classic.inspection import Inspection
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.runtime.counts import NodeCounts
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.direct import DirectConnection
from leveret.broker.tracing.trace import Trace, TraceError
from leveret.cluster.partitions.leftovers.files import DiscardedReader
from leveret.cluster.partitions.leftovers.publishing import LeftoverPublishing, PublishedFile
from leveret.mgmt.node_facade.clients import OpenConnection
from leveret.mgmt.node_facade.declared import DeclaredFacade
from leveret.mgmt.node_facade.facts import LoopFigures, QueuePolicies
from leveret.storage.store.store_figures import StoreFigures


class NodeFacade(DeclaredFacade):
    """A running broker.

    counts: of the node since its start. users, permissions, limits, policies, parameters: the
    tables of declarations; runtime_parameters: as they are stored. access: the decisions about
    users. events: those for operators. shovels, federation, traces, plugins: their statuses, and
    acts.
    retained: the retained messages of MQTT.
    """

    def __init__(self, broker: Broker) -> None:
        services = broker.services
        super().__init__(services.vhosts)
        self._broker = broker
        self._services = services
        self.config: Config = broker.config
        self.counts: NodeCounts = services.counts
        self.users, self.permissions = services.users, services.permissions
        self.limits, self.policies = services.limits, services.policies
        self.parameters = services.parameters
        self.runtime_parameters = services.registry.runtime_parameters
        self.access, self.events = services.access, services.events
        self.shovels, self.federation = broker.shovels, broker.federation
        self.traces = broker.traces
        self.retained = services.retained
        self.plugins = broker.plugins

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.config.node_name

    # Time

    def now_ms(self) -> int:
        """The broker's clock, which never decreases."""
        return self._services.clock.now_ms()

    def wall_time_s(self) -> float:
        """Wall-clock time."""
        return self._services.clock.wall_time_s()

    # Clients

    def connections(self) -> list[OpenConnection]:
        """The connections whose handshake is over, and whose end has not begun."""
        found = tuple(self._broker.connections)
        return [OpenConnection(one) for one in found if one.is_open]

    def connections_in_any_state(self) -> list[OpenConnection]:
        """All connections, including those in the handshake and those being closed."""
        return list(map(OpenConnection, self._broker.connections))

    @property
    def serves_amqp10(self) -> bool:
        """Whether clients of AMQP 1.0 may connect."""
        return self._services.serves_amqp10

    # The node

    @property
    def cluster_name(self) -> str:
        """The name that operators gave the cluster."""
        return self._broker.cluster_name

    @property
    def cluster_id(self) -> str:
        """The id that identifies the cluster."""
        return self._broker.cluster_id

    @property
    def has_failed(self) -> bool:
        """Whether the broker has failed, and is about to stop."""
        return self._broker.failure.done()

    @property
    def own_alarms(self) -> tuple[str, ...]:
        """The alarms of this node that are in force: `memory`, `disk` or both."""
        return self._services.alarms.own

    @property
    def alarms_of_others(self) -> Mapping[str, tuple[str, ...]]:
        """The alarms of other nodes of the cluster, by the names of those that have any."""
        return self._services.alarms.of_others

    @property
    def metadata_changes(self) -> int:
        """The number of written changes of the metadata."""
        return self._services.metadata.changes

    def store_figures(self) -> StoreFigures | None:
        """The store's file operations; None without a store."""
        store = self._broker.store
        return None if store is None else store.figures()

    def loop_figures(self) -> LoopFigures:
        """The figures of the event loop."""
        turns = self._services.turns
        watch = turns.watch
        return LoopFigures(
            turns.waiting, watch.long_turns, watch.long_seconds, watch.waits,
            watch.longest_seconds,
        )  # fmt: skip

    @property
    def performed_count(self) -> int:
        """The number of performed declarations, on disk or not."""
        return self._services.declaration_writer.performed_count

    @property
    def durable_count(self) -> int:
        """The number of declarations that are on disk."""
        return self._services.declaration_writer.durable_count

    # Declarations

    def check_queue_arguments(self, arguments: Table, name: str, vhost: str) -> None:
        """Check the arguments of a queue. Raises ChannelFault."""
        kinds = self._services.queue_kinds
        kinds.check_arguments(kinds.specify(vhost, name, arguments))

    def new_queue(
        self, vhost: str, name: str, arguments: Table, *, durable: bool, auto_delete: bool
    ) -> Declaration:
        """The declaration that adds a queue, with the placement chosen for it. Raises KeyError."""
        where = self._vhosts[vhost]
        return where.declaration_of(
            where.kinds.specify(vhost, name, arguments, durable=durable, auto_delete=auto_delete)
        )

    def queue_kind(self, vhost: str, name: str, arguments: Table) -> QueueKind:
        """The kind of a queue, or the one that these arguments would give it."""
        queue = self._queue(vhost, name)
        if queue is not None:
            return queue.kind
        return self._services.queue_kinds.specify(vhost, name, arguments).kind

    def queue_policies(self, vhost: str, name: str, arguments: Table) -> QueuePolicies:
        """The policies of a queue, and the options that it would get if it were declared now."""
        it = self._services.queue_kinds.specify(vhost, name, arguments)
        kind = self.queue_kind(vhost, name, arguments)
        policy = self.policies.of_queue(POLICY, vhost, name, kind)
        operator_policy = self.policies.of_queue(OPERATOR_POLICY, vhost, name, kind)
        options = effective_options(it.options, merged(policy, operator_policy), kind)
        return QueuePolicies(
            policy.name if policy else None,
            operator_policy.name if operator_policy else None,
            options._asdict(),
        )

    def submit(self, *declarations: Declaration, requester: Requester) -> Answer[Any]:
        """Submit declarations; the answer is given when they are stored."""
        return self._services.declarations.submit(*declarations, requester=requester)

    def new_vhost(
        self, name: str, description: str, tags: str, acting_user: str
    ) -> Iterable[Declaration]:
        """The declarations that add a vhost."""
        return self._services.registry.new_vhost(name, description, tags, acting_user)

    def synced(self) -> Answer[None]:
        """Return an answer that is given when everything declared so far is on disk."""
        return self._services.declarations.synced()

    # Acts

    def note(self, requester: Requester, act: AuditedChange) -> None:
        """Report an act that is not a declaration to the audit."""
        self._services.audit.note(requester, act)

    def length(self, vhost: str, queue: str) -> Answer[QueueLength] | None:
        """Ask a queue, or its node, for its length; None if there is no such queue."""
        it = self._queue(vhost, queue)
        if it is None:
            return None
        answer: Answer[QueueLength] = Answer()
        it.length(answer)
        return answer

    def listen_for_replication(self, changed: Callable[[], object]) -> None:
        """Call a function when the upstream of a standby, or its being a standby, has changed."""
        self._broker.links.replication_changed = changed

    def connect(
        self, user: Identity, vhost: str, peer_host: str, requester: Requester
    ) -> DirectConnection:
        """A user's access to a vhost. Raises ConnectionFault if the vhost was deleted."""
        it = self._vhosts.get(vhost)
        if it is None:
            raise not_allowed(f"vhost {vhost} not found")
        return DirectConnection(self._services, user, it, peer_host, requester)

    def inspection(self, vhost: str, queue: str) -> Inspection | None:
        """Access to all messages of a queue; None unless this node has them."""
        found = self._with_factory(vhost, queue)
        it = None if found is None else found[1].leader_here(found[0])
        return Inspection(it) if isinstance(it, ClassicQueue) else None

    def synchronise(self, vhost: str, queue: str, is_wanted: bool) -> None:
        """Send a queue's members the messages that they lack, or stop that.

        A queue for which that is not possible (`can_synchronise`) ignores it.
        """
        found = self._with_factory(vhost, queue)
        if found is not None and found[1].can_synchronise(found[0]):
            found[1].synchronise(found[0], is_wanted)

    def promotion(self, vhost: str, queue: str, leader: str, node: str) -> Declaration | None:
        """The declaration by which a node leads a queue instead of another; None if it cannot."""
        found = self._with_factory(vhost, queue)
        if found is None or found[0].placement.node != leader:
            return None
        return found[1].promotion(vhost, found[0], node)

    def set_firehose(self, vhost: str, is_traced: bool) -> None:
        """Turn the firehose of a vhost on or off."""
        it = self._vhosts.get(vhost)
        if it is not None:
            self._broker.tracing.set_firehose(it, is_traced)

    def begin_trace(self, trace: Trace, acting_user: str) -> Answer[None]:
        """Start a trace, as `Traces.begin` does. Raises TraceError."""
        it = self._vhosts.get(trace.vhost)
        if it is None:
            raise TraceError(f"vhost '{trace.vhost}' was deleted")
        return self.traces.begin(it, trace, acting_user)

    def end_trace(self, vhost: str, name: str, acting_user: str) -> Answer[None]:
        """Stop a running trace, as `Traces.end` does."""
        return self.traces.end(self._vhosts[vhost], name, acting_user)

    async def publish_leftovers(
        self, reader: DiscardedReader, requester: Requester, *, declares: bool
    ) -> PublishedFile:
        """Publish the messages of a file again, as `LeftoverPublishing` does.

        Raises OSError, NotReadable, and Fault for a declaration that is not allowed.
        """
        return await LeftoverPublishing(self._services, requester, declares=declares).run(reader)

    def suspend_listeners(self) -> None:
        """Stop accepting new clients."""
        self._broker.listeners.suspend()

    def resume_listeners(self) -> None:
        """Accept clients again. Raises SettingError."""
        self._broker.listeners.resume()
