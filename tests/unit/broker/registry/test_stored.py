"""What is written is what comes back: for any sequence of declarations."""

import re
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import (
    DeleteBinding,
    DeleteExchange,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimits,
    DeleteVhost,
    DeleteVhostLimits,
    Permission,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    TopicPermission,
    User,
    decode,
    encode,
)
from leveret.broker.policies.policy_keys import PolicyError
from leveret.broker.registry.stored import declarations
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.declaring import Declared, state_of

NAMES = st.sampled_from(["a", "b", b"\xff".decode("utf-8", "surrogateescape")])
VHOSTS = st.sampled_from(["/", "v"])
PATTERNS = st.sampled_from(["", "^a", "(", ".*"])
NUMBERS = st.integers(-1, 3)
COMPONENTS = st.sampled_from(["policy", "operator_policy"])
KINDS = st.sampled_from(["queue", "exchange"])
NO_ARGUMENTS = encode_table({})
QUEUE_ARGUMENTS = st.sampled_from([NO_ARGUMENTS, encode_table({"x-max-length": ("s", 4)})])
EXCHANGE_ARGUMENTS = st.sampled_from(
    [NO_ARGUMENTS, encode_table({"alternate-exchange": ("S", "a")})]
)
BINDING_ARGUMENTS = st.sampled_from([NO_ARGUMENTS, encode_table({"x-match": ("S", "any")})])
BINDINGS = (
    VHOSTS,
    st.sampled_from(["a", "b", "amq.topic"]),
    NAMES,
    NAMES,
    KINDS,
    BINDING_ARGUMENTS,
)
DEFINITIONS = st.fixed_dictionaries({"max-length": NUMBERS})
JSON = st.recursive(st.none() | NUMBERS | st.booleans() | NAMES, st.lists, max_leaves=3)
LIMITS = st.dictionaries(st.sampled_from(["max-queues", "max-connections"]), NUMBERS)

ANY = st.one_of(
    st.builds(PutVhost, VHOSTS, NAMES, NAMES), st.builds(DeleteVhost, VHOSTS),
    st.builds(PutUser, st.builds(User, NAMES, st.just(("x", "y")), st.binary(max_size=4), NAMES)),
    st.builds(DeleteUser, NAMES),
    st.builds(PutPermission, st.builds(Permission, VHOSTS, NAMES, PATTERNS, PATTERNS, PATTERNS)),
    st.builds(DeletePermission, VHOSTS, NAMES),
    st.builds(
        PutTopicPermission, st.builds(TopicPermission, VHOSTS, NAMES, NAMES, PATTERNS, PATTERNS)
    ),
    st.builds(DeleteTopicPermission, VHOSTS, NAMES, st.none() | NAMES),
    st.builds(
        PutPolicy, COMPONENTS,
        st.builds(
            Policy, VHOSTS, NAMES, PATTERNS, st.sampled_from(["all", "queues", "exchanges"]),
            DEFINITIONS, NUMBERS,
        ),
    ),
    st.builds(DeletePolicy, COMPONENTS, VHOSTS, NAMES),
    st.builds(PutVhostLimits, VHOSTS, LIMITS), st.builds(DeleteVhostLimits, VHOSTS),
    st.builds(PutUserLimits, NAMES, LIMITS), st.builds(DeleteUserLimits, NAMES),
    st.builds(PutParameter, st.just("shovel"), VHOSTS, NAMES, JSON),
    st.builds(DeleteParameter, st.just("shovel"), VHOSTS, NAMES),
    st.builds(
        PutExchange, VHOSTS, NAMES, st.sampled_from(["direct", "headers", "topic"]),
        st.booleans(), st.booleans(), st.booleans(), EXCHANGE_ARGUMENTS,
    ),
    st.builds(DeleteExchange, VHOSTS, NAMES),
    st.builds(
        PutQueue, VHOSTS, NAMES, st.booleans(), st.booleans(), QUEUE_ARGUMENTS,
        node=st.sampled_from(["", "b@host"]), identity=st.integers(1, 3),
    ),
    st.builds(DeleteQueue, VHOSTS, NAMES),
    st.builds(PutBinding, *BINDINGS), st.builds(PutBinding, *BINDINGS),
    st.builds(DeleteBinding, *BINDINGS),
)  # fmt: skip


def submit(declared, changes):
    """Submit declarations; those that make no sense are refused.

    Those that are submitted together must not depend on each other (declaration_log.py, DC4), as a
    deletion and what is declared in its place: these are submitted one by one.
    """
    declared.put(PutVhost("/"))
    for change in chain.from_iterable(map(independent, changes)):
        try:
            declared.put(*change)
        except (Fault, PolicyError, re.error):
            continue


def independent(declarations):
    if any(type(one).__name__.startswith("Delete") for one in declarations):
        return [[one] for one in declarations]
    return [declarations]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ANY, min_size=1, max_size=3), max_size=30))
def test_a_restart_restores_durable_objects(changes):
    with TemporaryDirectory() as directory:
        path = Path(directory) / "metadata.sqlite"
        with closing(SqliteMetadata(path)) as metadata:
            metadata.load()
            live = Declared(metadata)
            submit(live, changes)
        with closing(SqliteMetadata(path)) as metadata:
            found = metadata.load()
        restarted = Declared()
        for declaration in declarations(found):
            restarted.registry.apply(declaration)
        assert not found.damaged
        assert state_of(restarted.registry) == state_of(live.registry, durable_only=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(ANY, min_size=1, max_size=3), max_size=30))
def test_another_node_comes_to_the_same_state(changes):
    live, applied = Declared(), []
    applying = live.registry.applying
    live.registry.applying = lambda one: applied.append(one) or applying(one)
    submit(live, changes)
    other = Declared()
    for declaration in applied:
        other.registry.apply(decode(encode(declaration)))
    assert state_of(other.registry) == state_of(live.registry)
