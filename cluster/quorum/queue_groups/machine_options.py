"""What a quorum queue's declaration and policies mean for its machine. Pure."""

from leveret.broker.queues.contract.arguments import NO_LIMIT as UNREACHED_LIMIT
from leveret.broker.queues.contract.arguments import REJECT_PUBLISH, QueueOptions
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    TTL_MAX_MS,
    DeadLetterStrategy,
    Options,
)


def machine_options(options: QueueOptions) -> Options:
    """The options of the machine, by RabbitMQ 3.10's rules."""
    return Options(
        max_length=_limit(options.max_length),
        max_length_bytes=_limit(options.max_length_bytes),
        rejects_publishes=options.overflow == REJECT_PUBLISH,
        delivery_limit=_limit(options.delivery_limit),
        message_ttl_ms=min(_limit(options.message_ttl_ms), TTL_MAX_MS),
        expires_ms=_limit(options.expires_ms),
        dead_letters=_strategy(options),
        is_single_active=options.single_active_consumer,
        returns_to_end=options.delivery_limit is None,
    )


def _strategy(options: QueueOptions) -> DeadLetterStrategy:
    if options.keeps_dead_letters:
        return DeadLetterStrategy.AT_LEAST_ONCE
    has_exchange = options.dead_letter_exchange is not None
    return DeadLetterStrategy.AT_MOST_ONCE if has_exchange else DeadLetterStrategy.DROP


def _limit(limit: int | None) -> int:
    return NO_LIMIT if limit is None or limit >= UNREACHED_LIMIT else limit
