"""What every connection of a broker shares: its configuration, its time, its vhosts and users."""

from dataclasses import dataclass, field
from typing import Protocol

from broker.actor import Turns
from broker.alarms import Alarms
from broker.amqp.properties import HeaderCache
from broker.auth.access_control import AccessControl
from broker.auth.permissions import PermissionTable
from broker.auth.users import UserDirectory
from broker.clock import Clock
from broker.config import Config
from broker.counts import NodeCounts
from broker.events import Events
from broker.flow import Flow
from broker.limits import Limits
from broker.parameters import Parameters
from broker.policies import PolicyTable
from broker.vhost import VirtualHost
from storage.message import Message
from storage.metadata import Metadata


class ReplyConsumer(Protocol):
    """A channel that consumes from amq.rabbitmq.reply-to."""

    def deliver_reply(self, message: Message) -> None:
        """Send a reply to the client."""


class Observer(Protocol):
    """Sees what clients publish and are given; a broker that is embedded in a test has one."""

    def published(self, vhost: str, message: Message, queues: list[str]) -> None:
        """A client published a message."""

    def delivered(self, vhost: str, queue: str, message: Message, redelivered: bool) -> None:
        """A client was given a message."""


@dataclass(slots=True)
class Services:
    """Made by the server, and given to each connection.

    reply_consumers: direct reply-to names in use, and the channels behind them.
    header_cache: shared by all connections, since many publishers publish alike.
    holds_confirms: publisher confirms are held back, as a test of a publisher may want it.
    """

    config: Config
    clock: Clock
    turns: Turns
    metadata: Metadata
    users: UserDirectory
    permissions: PermissionTable
    access: AccessControl
    parameters: Parameters
    limits: Limits
    policies: PolicyTable
    events: Events
    vhosts: dict[str, VirtualHost] = field(default_factory=dict)
    alarms: Alarms = field(default_factory=Alarms)
    flow: Flow = field(init=False)
    counts: NodeCounts = field(default_factory=NodeCounts)
    reply_consumers: dict[str, ReplyConsumer] = field(default_factory=dict)
    header_cache: HeaderCache = field(default_factory=HeaderCache)
    observer: Observer | None = None
    holds_confirms: bool = False

    def __post_init__(self) -> None:
        self.flow = Flow(self.alarms)
