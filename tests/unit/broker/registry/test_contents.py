"""Everything that is declared as declarations, and the way from one content to another."""

import random

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.auth.users import with_password
from leveret.broker.declarations.values import (
    DeleteBinding,
    DeleteQueue,
    DeleteVhost,
    Permission,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPlacement,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    TopicPermission,
    decode,
    encode,
)
from leveret.broker.registry.contents import changes, contents
from tests.declaring import Declared

ALICE = PutUser(with_password("alice", "secret", ("administrator",)))
TTL = encode_table({"x-message-ttl": ("I", 1000)})
EVERYTHING = [
    PutVhost("/", "the first", "a,b"), ALICE, PutPermission(Permission("/", "alice", "", "", ".*")),
    PutTopicPermission(TopicPermission("/", "alice", "amq.topic", "w", "r")),
    PutParameter("shovel", "/", "s", {"src-uri": "amqp://"}),
    PutParameter("global", "", "cluster_name", "c"),
    PutPolicy("policy", Policy("/", "p", "^q", "queues", {"max-length": 5}, 0)),
    PutPolicy("operator_policy", Policy("/", "o", "^q", "queues", {"max-length": 3}, 0)),
    PutVhostLimits("/", {"max-queues": 9}), PutUserLimits("alice", {"max-channels": 3}),
    PutExchange("/", "e", "headers", True), PutQueue("/", "q", True, False, TTL),
    PutBinding("/", "e", "q", "k", arguments=encode_table({"x-match": ("S", "any")})),
    PutBinding("/", "amq.topic", "e", "#", "exchange"),
]  # fmt: skip


def declared(declarations):
    made = Declared()
    for declaration in declarations:
        made.put(declaration)
    return made


def content(made):
    return set(map(encode, contents(made.registry)))


def test_all_that_is_declared_is_told():
    first = declared(EVERYTHING)
    second = declared(decode(encode(one)) for one in contents(first.registry))
    assert content(second) == content(first)
    assert content(first) == set(map(encode, EVERYTHING))


def test_nothing_changes_between_equal_contents():
    assert changes(contents(declared(EVERYTHING).registry), EVERYTHING) == []


def test_a_queue_that_stays_is_not_declared_again():
    mine = declared([*EVERYTHING, PutQueue("/", "gone")])
    assert changes(contents(mine.registry), EVERYTHING) == [DeleteQueue("/", "gone")]


def test_a_binding_goes_alone():
    binding = EVERYTHING[-1]
    left = changes(contents(declared(EVERYTHING).registry), EVERYTHING[:-1])
    assert left == [DeleteBinding("/", "amq.topic", "e", "#", "exchange", binding.arguments)]


def test_a_replaced_queue_gets_its_bindings_again():
    other = PutQueue("/", "q", True, True)
    theirs = [other if isinstance(one, PutQueue) else one for one in EVERYTHING]
    mine = declared(EVERYTHING)
    for one in changes(contents(mine.registry), theirs):
        mine.put(one)
    assert content(mine) == set(map(encode, theirs))


MIRRORED = PutQueue("/", "m", True, node="a@host", identity=7, record=b"first")


@pytest.mark.parametrize(
    "theirs",
    [
        PutQueue("/", "m", True, node="a@host", identity=7, record=b"second"),
        PutQueue("/", "m", True, node="b@host", identity=7, record=b"second"),
        PutQueue("/", "m", True, node="b@host", identity=7),
    ],
)
def test_a_mirrored_queue_stays_while_another_node_leads(theirs):
    mine = declared([PutVhost("/"), MIRRORED])
    made = changes(contents(mine.registry), [PutVhost("/"), theirs])
    assert made == [PutPlacement("/", "m", 7, theirs.node, theirs.record)]
    queue = mine.registry.vhosts["/"].queues["m"]
    mine.put(*made)
    assert list(contents(mine.registry)) == [PutVhost("/"), theirs]
    assert mine.registry.vhosts["/"].queues["m"] is queue


def test_a_queue_that_is_mirrored_from_now_on_stays():
    alone = PutQueue("/", "m", True, node="a@host", identity=7)
    made = changes([PutVhost("/"), alone], [PutVhost("/"), MIRRORED])
    assert made == [PutPlacement("/", "m", 7, "a@host", b"first")]


def test_a_mirrored_queue_that_was_declared_again_is_another_one():
    other = PutQueue("/", "m", True, node="a@host", identity=8, record=b"other")
    assert changes([MIRRORED], [other]) == [DeleteQueue("/", "m"), other]


def test_a_mirrored_queue_that_goes_with_its_vhost_is_declared_as_a_whole():
    made = changes([PutVhost("/"), MIRRORED], [PutVhost("v"), MIRRORED])
    assert made[-1] == MIRRORED
    assert changes([PutVhost("v")], [PutVhost("v"), MIRRORED]) == [MIRRORED]


def test_a_deleted_vhost_takes_its_contents_with_it():
    left = [PutVhost("other"), ALICE]
    made = changes(contents(declared(EVERYTHING).registry), left)
    assert made.index(DeleteVhost("/")) == len(made) - 2
    assert made[-1] == PutVhost("other")


def some_declarations(draw):
    """Declarations in an order in which they apply, most of which are in other samples, too."""
    vhosts = draw.sample(["/", "v", "w"], draw.randint(1, 3))
    yield from map(PutVhost, vhosts)
    for vhost in vhosts:
        names = draw.sample("abcdef", draw.randint(0, 6))
        for name in names:
            yield PutExchange(vhost, f"e-{name}", draw.choice(["direct", "fanout"]))
        for name in names:
            yield PutQueue(vhost, f"q-{name}", draw.random() < 0.5)
        for name in names:
            yield PutBinding(vhost, f"e-{draw.choice(names)}", f"q-{name}", draw.choice("xy"))
        if draw.random() < 0.5:
            policy = Policy(vhost, "p", draw.choice(["^q", "^e"]), "all", {"max-length": 5}, 0)
            yield PutPolicy("policy", policy)


@pytest.mark.parametrize("seed", range(100))
def test_any_content_becomes_any_other(seed):
    draw = random.Random(seed)
    mine, theirs = declared(some_declarations(draw)), declared(some_declarations(draw))
    for one in changes(contents(mine.registry), contents(theirs.registry)):
        mine.put(one)
    assert content(mine) == content(theirs)
