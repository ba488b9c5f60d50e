"""Both sides of a handshake as pure state machines: what they agree on, and why they refuse."""

import random
from dataclasses import replace

import msgspec
import pytest

from leveret.cluster.links.frames import header_of
from leveret.cluster.links.handshake import (
    HELLO,
    MAGIC,
    MESSAGE_OCTETS_MAX,
    NONCE_OCTETS,
    PROOF,
    REFUSE,
    Established,
    Failed,
    Handshake,
    Proven,
    SendBytes,
)
from leveret.cluster.links.hello import Hello, NodeIdentity
from leveret.cluster.links.refusals import RefusalKind, duplicate, linked

COOKIE = b"a cookie that both nodes have"
A = NodeIdentity("a@host", 1000, release="1.5.0", port=25672, features=frozenset({"x", "y"}))
B = NodeIdentity("b@host", 2000, release="1.6.0", port=25673, features=frozenset({"y", "z"}))
nonces = random.Random(1)


def dialler(own=A, cookie=COOKIE, wanted=B.node):
    return Handshake(own, cookie, nonces.randbytes(NONCE_OCTETS), wanted)


def acceptor(own=B, cookie=COOKIE):
    return Handshake(own, cookie, nonces.randbytes(NONCE_OCTETS))


def sent(outputs):
    return b"".join(one.data for one in outputs if isinstance(one, SendBytes))


def found(outputs, kind):
    return [one for one in outputs if isinstance(one, kind)]


def run(first, second, decide=Handshake.accept):
    """Let both sides talk until nothing is sent; returns what else they gave out."""
    results = {first: [], second: []}
    to_second, to_first = first.start(), []
    while to_second or to_first:
        outputs = second.receive(sent(to_second)) if to_second else []
        if found(outputs, Proven):
            outputs += decide(second)
        results[second] += outputs
        to_first = [one for one in outputs if isinstance(one, SendBytes)]
        outputs = first.receive(sent(to_first)) if to_first else []
        results[first] += outputs
        to_second = [one for one in outputs if isinstance(one, SendBytes)]
        to_first = []
    return [[one for one in results[side] if not isinstance(one, SendBytes)]
            for side in (first, second)]  # fmt: skip


def refused(results):
    """The refusal of each side; None where there is none."""
    return [next((one.refusal for one in found(side, Failed)), None) for side in results]


def test_both_sides_are_established_with_what_they_have_in_common():
    (of_dialler,), (proven, of_acceptor) = run(dialler(), acceptor())
    assert isinstance(proven, Proven)
    assert (of_dialler.hello.node, of_dialler.hello.incarnation) == (B.node, 2000)
    assert (of_acceptor.hello.node, of_acceptor.hello.port) == (A.node, 25672)
    assert of_dialler.features == of_acceptor.features == {"y"}
    assert of_dialler.version == of_acceptor.version == 2
    assert of_dialler.rest == of_acceptor.rest == b""


@pytest.mark.parametrize("seed", range(20))
def test_bytes_may_arrive_in_any_pieces_and_what_follows_is_kept(seed):
    chance = random.Random(seed)
    first, second = dialler(), acceptor()

    def feed(side, data):
        outputs = []
        while data:
            size = chance.randrange(1, 60)
            piece, data = data[:size], data[size:]
            outputs += side.receive(piece)
            if found(outputs, Established):
                return outputs, data
        return outputs, data

    hello, _ = feed(second, sent(first.start()))
    proof, _ = feed(first, sent(hello))
    proven, _ = feed(second, sent(proof))
    assert found(proven, Proven)
    outputs, unread = feed(first, sent(second.accept()) + b"the first frames")
    (result,) = found(outputs, Established)
    assert result.rest + unread == b"the first frames"


def test_the_cookie_is_never_sent_and_a_scanner_gets_no_proof():
    first, second = dialler(), acceptor()
    everything = sent(first.start())
    everything += (hello := sent(second.receive(everything)))
    everything += (proof := sent(first.receive(hello)))
    second.receive(proof)
    everything += sent(second.accept())
    assert COOKIE not in everything
    # Who says only hello gets a hello.
    scanner = acceptor()
    answer = sent(scanner.receive(sent(dialler().start())))
    assert answer.startswith(MAGIC + header_of(HELLO, len(answer) - len(MAGIC) - 5))


# Refusals


def test_a_wrong_cookie_is_refused_by_both_with_what_to_do():
    results = run(dialler(cookie=b"another"), acceptor())
    of_dialler, of_acceptor = refused(results)
    assert of_dialler.kind is of_acceptor.kind is RefusalKind.COOKIE
    for refusal in (of_dialler, of_acceptor):
        assert "copy the file cluster.cookie" in refusal.sentence
    assert of_acceptor.sentence.startswith("it says that it is node a@host, but its cookie")
    assert not found(results[1], Proven)


@pytest.mark.parametrize(
    ("of_a", "of_b", "agreed"),
    [((1, 1), (1, 2), 1), ((1, 2), (2, 3), 2), ((3, 4), (3, 4), 4), ((2, 2), (1, 9), 2)],
)
def test_the_newest_version_that_both_speak_is_spoken(of_a, of_b, agreed):
    first = dialler(replace(A, oldest=of_a[0], newest=of_a[1]))
    second = acceptor(replace(B, oldest=of_b[0], newest=of_b[1]))
    results = run(first, second)
    assert [found(side, Established)[0].version for side in results] == [agreed, agreed]


def test_a_refused_version_says_which_side_is_older():
    old, new = replace(A, oldest=1, newest=2), replace(B, oldest=3, newest=3)
    of_dialler, of_acceptor = refused(run(dialler(old), acceptor(new)))
    assert of_dialler.kind is of_acceptor.kind is RefusalKind.VERSION
    assert of_dialler.sentence == (
        "node b@host (Leveret 1.6.0) speaks version 3 of the protocol between nodes, and this node "
        "(Leveret 1.5.0) versions 1 to 2: this node is older; upgrade it, over the releases in "
        "between if the cluster is to keep running"
    )
    assert "and this node (Leveret 1.6.0) version 3: node a@host is older" in of_acceptor.sentence


def test_another_cluster_is_refused_by_both():
    one, other = replace(A, cluster="north"), replace(B, cluster="south")
    of_dialler, of_acceptor = refused(run(dialler(one), acceptor(other)))
    assert of_dialler.kind is of_acceptor.kind is RefusalKind.CLUSTER
    assert of_dialler.sentence.startswith(
        "node b@host belongs to the cluster south, and this node to north: remove the address"
    )


def test_a_node_without_replicated_quorum_queues_is_refused_with_what_to_do():
    old = replace(A, oldest=1, newest=1)
    _, of_acceptor = refused(run(dialler(old), acceptor(B)))
    assert of_acceptor.kind is RefusalKind.VERSION
    assert of_acceptor.sentence == (
        "node a@host (Leveret 1.5.0) speaks version 1 of the protocol between nodes, and this node "
        "(Leveret 1.6.0) version 2: node a@host is older; its quorum queues have one member each, "
        "so nodes cannot be upgraded one by one; stop all nodes of the cluster, and start them all "
        "with Leveret 1.6.0"
    )


def test_a_node_of_no_cluster_may_link_to_any():
    results = run(dialler(A), acceptor(replace(B, cluster="south")))
    assert refused(results) == [None, None]


def test_a_node_that_dials_itself_is_told_so():
    of_dialler, _ = refused(run(dialler(A), acceptor(A)))
    assert of_dialler.kind is RefusalKind.SAME_NAME
    assert of_dialler.sentence.startswith("the address is that of this node itself")


def test_another_node_with_this_name_is_told_so():
    of_dialler, of_acceptor = refused(run(dialler(A), acceptor(replace(A, incarnation=7))))
    assert of_dialler.kind is of_acceptor.kind is RefusalKind.SAME_NAME
    assert of_dialler.sentence.startswith("another node has the name of this one, a@host")


def test_an_address_that_leads_to_another_node_is_told():
    of_dialler, of_acceptor = refused(run(dialler(A, wanted="c@host"), acceptor(B)))
    assert of_dialler.sentence.startswith("node b@host answers where c@host was expected")
    assert of_acceptor.sentence.startswith("node a@host takes this node for c@host")


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (duplicate, "node b@host is linked to another node named a@host, as this node is"),
        (linked, "node b@host keeps another connection to this node"),
    ],
)
def test_what_the_acceptor_decides_is_told_to_the_dialler(refusal, sentence):
    results = run(dialler(), acceptor(), lambda side: side.refuse(refusal(side.peer)))
    of_dialler, of_acceptor = refused(results)
    assert of_dialler.kind is of_acceptor.kind
    assert of_dialler.sentence.startswith(sentence)


# Attackers without the cookie


def recorded():
    """All that both sides of a successful handshake sent."""
    first, second = dialler(), acceptor()
    hello = sent(first.start())
    answer = sent(second.receive(hello))
    proof = sent(first.receive(answer))
    second.receive(proof)
    return hello, answer, proof, sent(second.accept())


def test_a_replayed_dialler_is_refused():
    hello, _, proof, _ = recorded()
    second = acceptor()
    outputs = second.receive(hello) + second.receive(proof)
    assert not found(outputs, Proven)
    assert found(outputs, Failed)[0].refusal.kind is RefusalKind.COOKIE


def test_a_replayed_acceptor_is_refused():
    _, answer, _, accepted = recorded()
    first = dialler()
    first.start()
    outputs = first.receive(answer) + first.receive(accepted)
    assert not found(outputs, Established)
    assert found(outputs, Failed)[0].refusal.kind is RefusalKind.COOKIE


def test_a_reflected_dialler_is_refused():
    """The attacker sends everything back to the side that sent it."""
    first = dialler()
    outputs = first.receive(sent(first.start()))
    assert found(outputs, Failed)[0].refusal.kind is RefusalKind.SAME_NAME


def test_a_proof_that_comes_back_is_refused():
    """The attacker has a hello of its own, and lets the dialler's proof be its own."""
    first = dialler()
    first.start()
    own = msgspec.msgpack.encode(Hello.of(B, bytes(NONCE_OCTETS), ""))
    proof = sent(first.receive(MAGIC + header_of(HELLO, len(own)) + own))
    outputs = first.receive(proof)
    assert found(outputs, Failed)[0].refusal.kind is RefusalKind.COOKIE


def test_an_oracle_of_two_nodes_is_refused():
    """The attacker is between a dialler of b and a dialler of a, and exchanges their messages."""
    one, other = dialler(A, wanted=B.node), dialler(B, wanted=A.node)
    hello_of_a, hello_of_b = sent(one.start()), sent(other.start())
    proof_of_a, proof_of_b = sent(one.receive(hello_of_b)), sent(other.receive(hello_of_a))
    for side, proof in ((one, proof_of_b), (other, proof_of_a)):
        outputs = side.receive(proof)
        assert not found(outputs, Established)
        assert found(outputs, Failed)


@pytest.mark.parametrize("field", ["node", "incarnation", "newest", "cluster", "port", "nonce",
                                   "features", "compression"])  # fmt: skip
def test_a_man_in_the_middle_changing_a_hello_breaks_the_handshake(field):
    first, second = dialler(), acceptor()
    first.start()
    honest = msgspec.msgpack.decode(sent(second.receive(sent(dialler().start())))[13:], type=Hello)
    changed = {
        "node": "b@host", "incarnation": 5, "newest": 9, "cluster": "x", "port": 1,
        "nonce": bytes(NONCE_OCTETS), "features": ("z",), "compression": "lz4",
    }  # fmt: skip
    forged = msgspec.msgpack.encode(msgspec.structs.replace(honest, **{field: changed[field]}))
    outputs = first.receive(MAGIC + header_of(HELLO, len(forged)) + forged)
    outputs = second.receive(sent(outputs))
    assert not found(outputs, Proven)


def test_nothing_is_sent_after_a_failure():
    second = acceptor()
    second.receive(b"GET / HTTP/1.1\r\n\r\n")
    assert second.receive(sent(dialler().start())) == []
    assert second.refuse(linked(Hello.of(A, b"", ""))) == []
    assert second.is_decided


# Damage


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"\x16\x03\x01\x02\x00\x01",
        b"LEVERET\r",
        MAGIC + b"\x00\x00\x00\x00\x01",
        MAGIC + b"\xff\xff\xff\xff\x01",
        MAGIC + header_of(HELLO, MESSAGE_OCTETS_MAX),
        MAGIC + header_of(PROOF, 32) + bytes(32),
        MAGIC + header_of(REFUSE, 6) + b"cookie",
        MAGIC + header_of(9, 1) + b"x",
        MAGIC + header_of(HELLO, 1) + b"\xc1",
        MAGIC + header_of(HELLO, 1) + b"\x80",
    ],
)
def test_garbage_fails_at_once(data):
    outputs = acceptor().receive(data)
    assert [one.refusal.kind for one in found(outputs, Failed)] == [RefusalKind.GARBAGE]
    assert sent(outputs) == b""


@pytest.mark.parametrize(
    "fields",
    [
        {"node": "no host"}, {"node": "b@ho\x1b[2Jst"}, {"node": "x" * 300 + "@host"},
        {"oldest": 0}, {"oldest": 3, "newest": 2}, {"incarnation": -1}, {"incarnation": 2**63},
        {"port": 65_536}, {"cluster": "x" * 257}, {"cluster": "a\nb"}, {"release": "1\r\n2"},
        {"features": ("x" * 65,)}, {"features": ("x",) * 300}, {"nonce": b"short"},
        {"wanted": "b\n@host"},
    ],
)  # fmt: skip
def test_a_hello_with_invalid_fields_is_garbage(fields):
    hello = msgspec.structs.replace(Hello.of(A, bytes(NONCE_OCTETS), B.node), **fields)
    octets = msgspec.msgpack.encode(hello)
    outputs = acceptor().receive(MAGIC + header_of(HELLO, len(octets)) + octets)
    assert [one.refusal.kind for one in found(outputs, Failed)] == [RefusalKind.GARBAGE]


def test_a_later_release_may_add_fields_to_its_hello():
    hello = msgspec.to_builtins(Hello.of(A, b"", B.node)) | {"a_new_field": [1, 2]}
    octets = msgspec.msgpack.encode(hello | {"nonce": bytes(NONCE_OCTETS)})
    outputs = acceptor().receive(MAGIC + header_of(HELLO, len(octets)) + octets)
    assert not found(outputs, Failed)
    assert sent(outputs).startswith(MAGIC)


def test_an_unknown_word_of_refusal_is_garbage():
    first, second = dialler(), acceptor()
    first.receive(sent(second.receive(sent(first.start()))))
    outputs = first.receive(header_of(REFUSE, 3) + b"why")
    assert [one.refusal.kind for one in found(outputs, Failed)] == [RefusalKind.GARBAGE]


def test_damaged_messages_never_establish_and_never_raise():
    for seed in range(2000):
        chance = random.Random(seed)
        first, second = dialler(), acceptor()
        messages = first.start()
        damaged_step = chance.randrange(4)
        for step in range(4):
            data = bytearray(sent(messages))
            if step == damaged_step and data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                data = data[: chance.choice([len(data), chance.randrange(len(data) + 1)])]
            side = (second, first)[step % 2]
            messages = side.receive(bytes(data))
            if found(messages, Proven):
                assert damaged_step > step
                messages += second.accept()
            if found(messages, Failed):
                break
        else:
            assert not first.is_decided
