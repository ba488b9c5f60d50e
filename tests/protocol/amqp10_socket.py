"""A client of AMQP 1.0 on a blocking socket, for tests with nodes in processes of their own."""

import socket
import struct

from leveret.broker.protocols.amqp10.login import HEADER, SASL_HEADER
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from tests.patience import PATIENCE_SECONDS
from tests.protocol.amqp10_peer import encoded, frame_with, read_frames

GUEST = SaslInit("PLAIN", b"\0guest\0guest")


class Amqp10Socket:
    """A client with an open session on channel 0. unread: frames that no call has returned yet.

    tls: an SSLContext. login: how it logs in. Raises PermissionError if that is refused.
    """

    def __init__(self, port, host="127.0.0.1", tls=None, login=GUEST, **fields):
        self.socket = socket.create_connection((host, port), PATIENCE_SECONDS)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._bytes = b""
        self.unread = []
        self.delivery_id = 0
        self.socket.sendall(SASL_HEADER)
        self.expect(SaslMechanisms)
        self.send(login)
        code = self.expect(SaslOutcome).performative.code
        if code:
            self.close()
            raise PermissionError(f"the login is refused: {code}")
        self.socket.sendall(HEADER)
        self.send(Open("test", **fields))
        self.expect(Open)
        self.begin()

    @property
    def port(self):
        """The client's own port."""
        return self.socket.getsockname()[1]

    def send(self, performative, channel=0, payload=b""):
        self.socket.sendall(frame_with(performative, payload, channel))

    def expect(self, kind, is_wanted=lambda _: True):
        """The next frame with such a performative. Others are kept. Raises EOFError."""
        while True:
            for at, frame in enumerate(self.unread):
                if isinstance(frame.performative, kind) and is_wanted(frame.performative):
                    del self.unread[at]
                    return frame
            data = self.socket.recv(1 << 20)
            if not data:
                raise EOFError(f"the node closed the socket; before: {self.unread}")
            found, self._bytes = read_frames(self._bytes + data)
            self.unread += found

    def begin(self, channel=0):
        self.send(Begin(None, 0, 1000, 1000), channel)
        return self.expect(Begin)

    def publisher(self, address, handle=0, durable=None):
        self.send(
            Attach(
                f"link {handle}", handle, SENDER, source=Source(), target=Target(address, durable),
                initial_delivery_count=0,
            )
        )  # fmt: skip
        self.expect(Flow, lambda flow: flow.handle == handle)

    def consumer(self, address, handle=0, credit=10, **fields):
        source = Source(address)
        self.send(Attach(f"link {handle}", handle, RECEIVER, source=source, **fields))
        self.expect(Attach)
        self.send(Flow(None, 1000, 0, 1000, handle, 0, credit))

    def publish(self, body, handle=0, **sections):
        """Publish a message that is not settled; returns its delivery-id."""
        delivery_id = self.delivery_id
        self.delivery_id += 1
        transfer = Transfer(handle, delivery_id, struct.pack(">I", delivery_id), 0, False)
        self.send(transfer, payload=encoded(body, **sections))
        return delivery_id

    def outcome(self):
        """The next disposition of the broker: first, last and outcome."""
        disposition = self.expect(Disposition).performative
        first, last = disposition.first, disposition.last
        return first, first if last is None else last, disposition.state

    def receive(self):
        """The next message: its delivery-id and the message. It comes in one frame."""
        frame = self.expect(Transfer)
        return frame.performative.delivery_id, frame.message

    def accept(self, delivery_id):
        self.send(Disposition(RECEIVER, delivery_id, None, True, Accepted()))

    def close(self):
        self.socket.close()
