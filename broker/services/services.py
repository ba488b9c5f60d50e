"""The services that all connections share: configuration, clock, vhosts, users and so on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.permissions import PermissionTable
from leveret.broker.auth.users import UserDirectory
from leveret.broker.config import Config
from leveret.broker.declarations.audit import Audit
from leveret.broker.events.events import Events
from leveret.broker.policies.limits import VhostAndUserLimits
from leveret.broker.policies.open_counts import OpenCounts
from leveret.broker.policies.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST, Parameters
from leveret.broker.policies.policy_table import PolicyTable
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.served_kinds import served_kinds
from leveret.broker.registry.declaration_log import DeclarationLog
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.resources.alarms import Alarms
from leveret.broker.resources.flow import FlowControl
from leveret.broker.resources.unread_sockets import UnreadSockets
from leveret.broker.retained.retained_messages import RetainedMessages
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.counts import NodeCounts
from leveret.broker.runtime.log_limit import LogLimit
from leveret.broker.runtime.message_numbers import MessageNumbers
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.broker.runtime.turns import Turns
from leveret.broker.services.absent_owners import AbsentOwners
from leveret.broker.services.client_addresses import ClientAddresses
from leveret.broker.services.client_ids import ClientIds
from leveret.broker.vhost.direct_replies import Replies
from leveret.broker.vhost.seen_identifiers import SeenPlaces
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Message
from leveret.storage.metadata.metadata import Metadata


class Observer(Protocol):
    """Observes published and delivered messages; used by a broker embedded in a test."""

    def published(self, vhost: str, message: Message, queues: list[str]) -> None:
        """A client published a message."""

    def delivered(self, vhost: str, queue: str, message: Message, redelivered: bool) -> None:
        """A message was delivered to a client."""


@dataclass(slots=True)
class Services:
    """Created by the server and passed to each connection.

    registry: the declared objects; vhosts, users and so on are its parts.
    declarations: the log to which changes of declared objects are submitted.
    declaration_writer: what writes and applies them.
    replies: the channels that consume from amq.rabbitmq.reply-to.
    retained: the retained messages of MQTT. client_ids: its connected clients.
    seen_places: the exchanges that refuse duplicates.
    absent_owners: ends connections that own exclusive queues and whose clients are gone.
    audit: told of changes, with their requester.
    open_counts: of connections and channels, for limits.
    client_addresses: of the nodes, for clients of streams. mqtt_addresses, amqp10_addresses: for
    those of MQTT and AMQP 1.0.
    timeout_log_limit: of warnings of consumers that are near their timeout.
    holds_confirms: publisher confirms are withheld, for tests of publishers.
    serves_amqp10: clients of AMQP 1.0 may connect.
    interceptors, outgoing_interceptors: called with each message that a client publishes, or gets
    (sessions/interceptors.py). Each session knows whether there are outgoing ones.
    """

    config: Config
    clock: Clock
    turns: Turns
    metadata: Metadata
    registry: Registry
    declarations: DeclarationLog
    declaration_writer: DeclarationWriter
    access: AccessControl
    events: Events
    audit: Audit
    queue_kinds: QueueKinds = field(default_factory=served_kinds)
    vhosts: dict[str, VirtualHost] = field(init=False)
    users: UserDirectory = field(init=False)
    permissions: PermissionTable = field(init=False)
    parameters: Parameters = field(init=False)
    limits: VhostAndUserLimits = field(init=False)
    policies: PolicyTable = field(init=False)
    alarms: Alarms = field(default_factory=Alarms)
    flow: FlowControl = field(init=False)
    unread_sockets: UnreadSockets = field(default_factory=UnreadSockets)
    message_numbers: MessageNumbers = field(init=False)
    counts: NodeCounts = field(default_factory=NodeCounts)
    open_counts: OpenCounts = field(default_factory=OpenCounts)
    client_addresses: ClientAddresses = field(default_factory=ClientAddresses)
    mqtt_addresses: ClientAddresses = field(default_factory=ClientAddresses)
    amqp10_addresses: ClientAddresses = field(default_factory=ClientAddresses)
    replies: Replies = field(init=False)
    retained: RetainedMessages = field(init=False)
    client_ids: ClientIds = field(init=False)
    seen_places: SeenPlaces = field(default_factory=SeenPlaces)
    absent_owners: AbsentOwners = field(default_factory=AbsentOwners)
    shared_features: SharedFeatures = field(default_factory=SharedFeatures)
    timeout_log_limit: LogLimit = field(default_factory=LogLimit)
    observer: Observer | None = None
    holds_confirms: bool = False
    serves_amqp10: bool = field(init=False)
    interceptors: tuple[Callable[[Any], object], ...] = ()
    outgoing_interceptors: tuple[Callable[[Any], object], ...] = ()

    def __post_init__(self) -> None:
        self.flow = FlowControl(self.alarms)
        self.replies = Replies(self.config.node_name)
        self.retained = RetainedMessages(self.clock, self.config.node_name)
        self.client_ids = ClientIds(self.clock, self.config.node_name)
        self.message_numbers = MessageNumbers(self.clock.wall_time_s)
        registry = self.registry
        self.vhosts, self.users = registry.vhosts, registry.users
        self.permissions, self.parameters = registry.permissions, registry.parameters
        self.limits, self.policies = registry.limits, registry.policies
        self.policies.may_lift_limits = self.config.is_as_rabbitmq_4
        self.serves_amqp10 = self.config.is_as_rabbitmq_4

    @property
    def cluster_name(self) -> str:
        """The global parameter, else the configured name, else the node's name.

        It can change at any time.
        """
        named = self.parameters.get(GLOBAL, NO_VHOST, CLUSTER_NAME)
        return str(named or self.config.cluster_name or self.config.node_name)
