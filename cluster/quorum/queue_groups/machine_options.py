"""The options of a quorum queue's machine, from declaration, policies and RabbitMQ's rules. Pure.

RabbitMQ's versions differ in the default delivery limit, in the place of returned messages, in the
returns that count, in priorities, and in the choice of the single active consumer.
"""

from enum import Enum
from typing import Final

import msgspec

from leveret.broker.queues.contract.arguments import NO_LIMIT as UNREACHED_LIMIT
from leveret.broker.queues.contract.arguments import REJECT_PUBLISH, QueueOptions
from leveret.broker.queues.contract.retry_delay import retry_delay
from leveret.broker.queues.deduplication.identifiers import SIZE_DEFAULT
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    TTL_MAX_MS,
    DeadLetterStrategy,
    DelayedRetry,
    Options,
)

DEFAULT_DELIVERY_LIMIT = 20
"""The default since 4.0. A negative limit in an argument or policy means no limit."""


DELAYING: Final = Options(dead_letters=DeadLetterStrategy.AT_LEAST_ONCE, is_delaying=True)
"""The options of the queue of a delayed message exchange, whatever the rules are."""


class QueueRules(Enum):
    """The version of RabbitMQ whose rules queues follow (the setting `compat`)."""

    OF_3 = "3.12"
    OF_4_0 = "4.0"
    OF_4_3 = "4.x"


_PRIORITIES = {QueueRules.OF_3: 1, QueueRules.OF_4_0: 2, QueueRules.OF_4_3: 32}
_RETRIES = {
    "all": DelayedRetry.ALL, "failed": DelayedRetry.FAILED, "returned": DelayedRetry.RETURNED,
}  # fmt: skip


def machine_options(
    options: QueueOptions, rules: QueueRules, consumer_timeout_ms: int | None = None,
    *, is_successor: bool = False, takes_identifiers: bool = True, takes_retries: bool = True,
) -> Options:  # fmt: skip
    """The options of the machine. Those of the leader's node take effect.

    consumer_timeout_ms: the node's, for queues without one. is_successor: see `Options`.
    takes_identifiers: whether all nodes recognise duplicates. A member of an earlier version would
    keep the options without the size of the cache, and so differ from the others when it is
    upgraded: it is set by an entry that all understand.
    takes_retries: the same for the multiplier of delayed retries, and for messages that expire
    during their delays.
    """
    limit = delivery_limit(options, rules)
    has_cache = options.deduplicates and takes_identifiers
    machine = Options(
        max_length=_limit(options.max_length),
        max_length_bytes=_limit(options.max_length_bytes),
        rejects_publishes=options.overflow == REJECT_PUBLISH,
        delivery_limit=limit,
        message_ttl_ms=min(_limit(options.message_ttl_ms), TTL_MAX_MS),
        expires_ms=_limit(options.expires_ms),
        dead_letters=_strategy(options),
        is_single_active=options.single_active_consumer,
        elects_by_priority=rules is not QueueRules.OF_3,
        priorities=_PRIORITIES[rules],
        returns_to_end=_returns_to_end(options, limit, rules),
        is_successor=is_successor,
        cache_size=(options.cache_size or SIZE_DEFAULT) if has_cache else 0,
        cache_ttl_ms=(options.cache_ttl_ms or 0) if has_cache else 0,
    )
    machine = _with_delayed_retries(machine, options, takes_retries)
    if rules is not QueueRules.OF_4_3:
        return machine
    return _with_rules_of_4_3(machine, options, consumer_timeout_ms)


def delivery_limit(options: QueueOptions, rules: QueueRules) -> int:
    """The effective delivery limit; NO_LIMIT if there is none."""
    if options.delivery_limit is None and rules is not QueueRules.OF_3:
        return DEFAULT_DELIVERY_LIMIT
    return _limit(options.delivery_limit)


def _returns_to_end(options: QueueOptions, limit: int, rules: QueueRules) -> bool:
    if rules is QueueRules.OF_3:
        return options.delivery_limit is None
    return rules is QueueRules.OF_4_0 and limit == NO_LIMIT


def _with_delayed_retries(machine: Options, options: QueueOptions, takes_retries: bool) -> Options:
    """RabbitMQ has them from 4.3 on; here a queue of any version that asks for them has them."""
    if not takes_retries:
        options = options._replace(delayed_retry_multiplier=None)
    retry, delay = _RETRIES.get(options.delayed_retry_type), retry_delay(options)
    if retry is None or delay is None:
        return machine
    return msgspec.structs.replace(
        machine,
        delayed_retry=retry,
        delayed_retry_min_ms=delay.least_ms,
        delayed_retry_max_ms=delay.most_ms,
        delayed_retry_multiplier=delay.multiplier_thousandths,
        delayed_expire=takes_retries,
    )


def _with_rules_of_4_3(
    machine: Options, options: QueueOptions, consumer_timeout_ms: int | None
) -> Options:
    own_timeout_ms = options.consumer_timeout_ms
    timeout_ms = consumer_timeout_ms if own_timeout_ms is None else own_timeout_ms
    return msgspec.structs.replace(
        machine, counts_returns=False, consumer_timeout_ms=_limit(timeout_ms)
    )


def _strategy(options: QueueOptions) -> DeadLetterStrategy:
    if options.keeps_dead_letters:
        return DeadLetterStrategy.AT_LEAST_ONCE
    has_exchange = options.dead_letter_exchange is not None
    return DeadLetterStrategy.AT_MOST_ONCE if has_exchange else DeadLetterStrategy.DROP


def _limit(limit: int | None) -> int:
    return NO_LIMIT if limit is None or limit >= UNREACHED_LIMIT else limit
