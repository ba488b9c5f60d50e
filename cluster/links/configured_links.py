"""The configured links of a node: made here, started by the code that runs the node."""

from pathlib import Path

from leveret import __version__
from leveret.broker.config import Config, SettingError
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.node_address import DEFAULT_PORT, PORT_MAX, is_node_name
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.compression import PACKAGES, is_installed, readable_methods
from leveret.cluster.links.cookie import load_cookie
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.incarnation import next_incarnation
from leveret.cluster.links.links import LinkOptions, Links
from leveret.cluster.links.tls import LinkTls

ABOVE_AMQP = DEFAULT_PORT - 5672


def port_of(config: Config) -> int:
    """The port at which other nodes reach this one; 0: it has no links.

    Without a setting it follows the port for AMQP, as RabbitMQ's does, so that several nodes on one
    host need no further setting.
    """
    if config.cluster.port is not None:
        return config.cluster.port
    amqp_ports = [listener.port for listener in config.tcp.listeners]
    if not amqp_ports:
        return DEFAULT_PORT
    port = amqp_ports[0] + ABOVE_AMQP if amqp_ports[0] else 0
    return port if port <= PORT_MAX else DEFAULT_PORT


def make_links(
    config: Config,
    data_dir: Path,
    clock: Clock,
    *,
    cluster: str = "",
    features: frozenset[str] = frozenset(),
) -> Links | None:
    """The links of a node; None if they have no port. Raises SettingError and OSError.

    data_dir: locked by this process; its files for the cluster are made if they are missing.
    cluster: see `NodeIdentity`. Services are registered before `Links.start`.
    """
    settings, port = config.cluster, port_of(config)
    if not port:
        return None
    if not is_node_name(config.node_name):
        raise SettingError(
            "node_name",
            f"{config.node_name} cannot be the name of a node that is linked to others: expected "
            "name@host, an IPv6 address as the host in brackets, or cluster.port = 0",
        )
    if not is_installed(settings.compression):
        raise SettingError(
            "cluster.compression",
            f"{settings.compression} needs the package {PACKAGES[settings.compression]}: run "
            "pip install 'leveret[compression]'",
        )
    cookie = load_cookie(data_dir, settings.cookie, settings.cookie_file)
    tls = LinkTls(settings.tls, clock) if settings.tls.certfile is not None else None
    identity = NodeIdentity(
        node=config.node_name,
        incarnation=next_incarnation(data_dir, clock.wall_time_s()),
        release=__version__,
        cluster=cluster,
        features=features,
        compression=settings.compression,
        compressions=readable_methods(),
    )
    options = LinkOptions(
        cookie=cookie,
        bind=settings.bind,
        port=port,
        tick_time_s=settings.tick_time_s,
        unsent_octets_max=settings.send_buffer_bytes,
        tls=tls,
    )
    return Links(identity, options, AddressBook(data_dir), clock)
