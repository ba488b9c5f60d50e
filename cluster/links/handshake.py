"""The handshake: two nodes prove to each other that they know the cookie, and compare versions.

Promises. If a side gets `Established`, then the other end of the connection knows the cookie, read
the same two hellos as this side, has the name, the incarnation and the role that they state, and
did so for this connection: its nonce, which this side has just drawn, is covered by the proof. So a
recorded handshake cannot be replayed, a proof cannot be sent back to the side that made it, and a
man in the middle without the cookie can only pass the handshake on or break it. The cookie is never
sent, and an acceptor sends nothing derived from it to a side that has not proved that it knows it.

Not promised. Data sent after the handshake are not protected: TLS does that. An attacker that
impersonates the listening node can find a weak cookie by trying candidates on the proof that a
dialling node sends; generated cookies cannot be guessed.

Mechanism. The dialler speaks first.

    dialler                                acceptor
       │  MAGIC, HELLO ──────────────────►    │   names, incarnation, versions, a nonce
       │    ◄──────────────────  MAGIC, HELLO │   the same
       │  PROOF ─────────────────────────►    │   HMAC(cookie, "dialler", both hellos)
       │                                      │   the links decide: one link for each pair
       │    ◄───────────────  PROOF or REFUSE │   HMAC(cookie, "acceptor", both hellos)

A message is framed as in frames.py; its kind has the place of the service. Hellos are MessagePack
maps: a later version may add fields, which have defaults, and never removes one. Both sides check
both hellos, so each can describe the difference in its own sentence; REFUSE gives, as a word, only
reasons that the hellos do not show.

Invariants.
  HS1  An acceptor sends its proof only after it has verified the dialler's, and only by `accept`.
  HS2  A side is established at most once, and sends nothing after it failed.
  HS3  The two proofs of one handshake differ in their role, so neither is valid as the other.
"""

import hmac
from enum import Enum, auto
from hashlib import sha256
from typing import NamedTuple

import msgspec

from leveret.cluster.links.frames import HEADER, HEADER_OCTETS, LENGTH_OCTETS, header_of
from leveret.cluster.links.hello import Hello, NodeIdentity
from leveret.cluster.links.refusals import (
    REFUSAL_WORDS,
    LinkRefusal,
    RefusalKind,
    refusal_of_hello,
    refusal_told,
    wrong_cookie,
)

MAGIC = b"LEVERET\n"
MESSAGE_OCTETS_MAX = 16 * 1024
"""A hello has less than a kilobyte; the list of features may grow."""
NONCE_OCTETS = 32
HELLO, PROOF, REFUSE = 1, 2, 3
NO_NODE = (
    "it does not speak the protocol between Leveret nodes: connect clients to their own port, "
    "and let nothing but nodes reach cluster.port"
)
DIALLER_ROLE, ACCEPTOR_ROLE = b"leveret link, dialler", b"leveret link, acceptor"


class SendBytes(NamedTuple):
    """Send this to the other side."""

    data: bytes


class Proven(NamedTuple):
    """The dialler knows the cookie: answer with `accept` or `refuse`."""

    hello: Hello


class Established(NamedTuple):
    """The link is up. hello: the peer's. rest: bytes received after the handshake."""

    hello: Hello
    version: int
    features: frozenset[str]
    rest: bytes


class Failed(NamedTuple):
    """The connection has to be closed."""

    refusal: LinkRefusal


Output = SendBytes | Proven | Established | Failed


class HandshakeState(Enum):
    """The message that a side waits for."""

    HELLO = auto()
    PROOF = auto()
    DECISION = auto()
    OVER = auto()


class Handshake:
    """One side of a handshake.

    own: this node's identity. nonce: NONCE_OCTETS of randomness, drawn for this connection.
    cookie: the shared secret. wanted: the name of the dialled node; None at the acceptor.
    """

    def __init__(
        self, own: NodeIdentity, cookie: bytes, nonce: bytes, wanted: str | None = None
    ) -> None:
        assert len(nonce) == NONCE_OCTETS
        self._cookie = cookie
        self._is_dialler = wanted is not None
        self._hello = Hello.of(own, nonce, wanted or "")
        self._own_octets = msgspec.msgpack.encode(self._hello)
        self._peer: Hello | None = None
        self._transcript = b""
        self._state = HandshakeState.HELLO
        self._buffer = b""
        self._magic_seen = False

    @property
    def peer(self) -> Hello | None:
        """The other side's hello, unproven before `Proven` or `Established`."""
        return self._peer

    @property
    def has_sent_proof(self) -> bool:
        """Whether this dialler only waits for the acceptor's decision."""
        return self._is_dialler and self._state is HandshakeState.PROOF

    @property
    def is_decided(self) -> bool:
        """Whether the handshake has ended."""
        return self._state is HandshakeState.OVER

    def start(self) -> list[Output]:
        """The first message of the dialler; the acceptor sends nothing."""
        return [self._hello_message()] if self._is_dialler else []

    def receive(self, data: bytes) -> list[Output]:
        """Handle bytes of the other side. Not to be called after `Failed` and `Established`."""
        self._buffer += data
        outputs: list[Output] = []
        while self._state is not HandshakeState.OVER:
            try:
                message = self._take_message()
                if message is None:
                    break
                outputs += self._step(*message)
            except _DamagedError as error:
                outputs += self._fail(LinkRefusal(RefusalKind.GARBAGE, str(error)))
        return outputs

    def accept(self) -> list[Output]:
        """Accept this link, as the acceptor."""
        assert self._state is HandshakeState.DECISION, "HS1"
        proof = self._proof(ACCEPTOR_ROLE)
        return [SendBytes(header_of(PROOF, len(proof)) + proof), self._established()]

    def refuse(self, refusal: LinkRefusal) -> list[Output]:
        """Refuse this link, as the acceptor. Also ends an earlier stage."""
        if self._state is HandshakeState.OVER:
            return []
        return self._tell(refusal)

    # Messages

    def _take_message(self) -> tuple[int, bytes] | None:
        """The next complete message. Raises _DamagedError."""
        if not self._magic_seen:
            beginning = self._buffer[: len(MAGIC)]
            if not MAGIC.startswith(beginning):
                raise _DamagedError(NO_NODE)
            if len(beginning) < len(MAGIC):
                return None
            self._magic_seen = True
            self._buffer = self._buffer[len(MAGIC) :]
        if len(self._buffer) < HEADER_OCTETS:
            return None
        length, kind = HEADER.unpack_from(self._buffer)
        if not 0 < length <= MESSAGE_OCTETS_MAX:
            raise _DamagedError(f"a message of its handshake has {length} octets")
        if len(self._buffer) < LENGTH_OCTETS + length:
            return None
        payload = self._buffer[HEADER_OCTETS : LENGTH_OCTETS + length]
        self._buffer = self._buffer[LENGTH_OCTETS + length :]
        return kind, payload

    def _step(self, kind: int, payload: bytes) -> list[Output]:
        match self._state, kind:
            case HandshakeState.HELLO, _ if kind == HELLO:
                return self._on_hello(payload)
            case HandshakeState.PROOF, _ if kind == PROOF:
                return self._on_proof(payload)
            case _, _ if kind == REFUSE and self._is_dialler:
                return self._on_refuse(payload)
        raise _DamagedError(f"message {kind} of the handshake comes out of order")

    def _on_hello(self, payload: bytes) -> list[Output]:
        try:
            peer = msgspec.msgpack.decode(payload, type=Hello)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _DamagedError("its hello cannot be read") from None
        if not peer.is_sound or len(peer.nonce) != NONCE_OCTETS:
            raise _DamagedError("its hello has invalid fields")
        self._peer = peer
        pair = (self._own_octets, payload) if self._is_dialler else (payload, self._own_octets)
        self._transcript = sha256(len(pair[0]).to_bytes(4, "big") + pair[0] + pair[1]).digest()
        outputs: list[Output] = [] if self._is_dialler else [self._hello_message()]
        if refusal := refusal_of_hello(self._hello, peer, is_dialler=self._is_dialler):
            return [*outputs, *self._fail(refusal)]
        self._state = HandshakeState.PROOF
        if self._is_dialler:
            proof = self._proof(DIALLER_ROLE)
            outputs.append(SendBytes(header_of(PROOF, len(proof)) + proof))
        return outputs

    def _on_proof(self, payload: bytes) -> list[Output]:
        assert self._peer is not None
        role = ACCEPTOR_ROLE if self._is_dialler else DIALLER_ROLE  # HS3
        if not hmac.compare_digest(payload, self._proof(role)):
            refusal = wrong_cookie(self._peer)
            return self._fail(refusal) if self._is_dialler else self._tell(refusal)
        if self._is_dialler:
            return [self._established()]
        self._state = HandshakeState.DECISION
        return [Proven(self._peer)]

    def _on_refuse(self, payload: bytes) -> list[Output]:
        kind = REFUSAL_WORDS.get(payload)
        if kind is None or self._peer is None:
            raise _DamagedError("it refuses this node for a reason that this release does not know")
        return self._fail(refusal_told(kind, self._hello, self._peer))

    # Results

    def _hello_message(self) -> SendBytes:
        octets = self._own_octets
        return SendBytes(MAGIC + header_of(HELLO, len(octets)) + octets)

    def _proof(self, role: bytes) -> bytes:
        return hmac.digest(self._cookie, role + b"\0" + self._transcript, "sha256")

    def _established(self) -> Established:
        assert self._state is not HandshakeState.OVER, "HS2"
        assert self._peer is not None
        self._state = HandshakeState.OVER
        rest, self._buffer = self._buffer, b""
        version = min(self._hello.newest, self._peer.newest)
        features = frozenset(self._hello.features) & frozenset(self._peer.features)
        return Established(self._peer, version, features, rest)

    def _tell(self, refusal: LinkRefusal) -> list[Output]:
        word = refusal.kind.value.encode()
        return [SendBytes(header_of(REFUSE, len(word)) + word), *self._fail(refusal)]

    def _fail(self, refusal: LinkRefusal) -> list[Output]:
        self._state = HandshakeState.OVER
        self._buffer = b""
        return [Failed(refusal)]


class _DamagedError(Exception):
    """Received data that are not a handshake. The text continues a sentence about the peer."""
