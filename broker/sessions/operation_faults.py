"""The faults of operations that wait too long for an answer, or whose changes cannot be written.

A change that cannot be written to disk changes nothing, and closes the connection: with 506 if the
disk is full, otherwise with 541. RabbitMQ defines no reply for either case; 506 is AMQP's code for
missing resources.
"""

import logging

from leveret.broker.amqp.errors import (
    ChannelFault,
    ConnectionFault,
    internal_error,
    precondition_failed,
    resource_error,
)
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.sessions.session import Session
from leveret.storage.metadata.metadata import MetadataError, MetadataFull

logger = logging.getLogger("leveret.channel")


def not_written(session: Session, description: str, error: MetadataError) -> ConnectionFault:
    """The fault for a change that cannot be written to disk, which is logged.

    description: the operation and its object, such as `queue.bind on queue 'q' in vhost '/'`.
    """
    logger.error("%s of %r is refused: %s", description, session, error)
    if isinstance(error, MetadataFull):
        return resource_error("the disk of the node is full; delete something or free space on it")
    if isinstance(error, NotTaken):
        return internal_error(str(error))
    return internal_error("the node cannot write its metadata; see its log")


def timed_out(description: str, timeout_ms: int) -> ChannelFault:
    """406 for an operation that waited too long for its answer."""
    return precondition_failed(f"operation {description} timed out after {timeout_ms} ms")
