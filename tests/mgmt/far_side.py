"""A far side for shovels and federation links that does what a test says: a server of AMQP 0-9-1
that takes everything and keeps nothing.

    with FarSide() as far:
        far.answers[commands.Basic.Publish] = closing_channel(403, "ACCESS_REFUSED - no")

An answer is called with the session, the channel's number and the method, instead of what the
server would do. Publishes are confirmed, unless a test answers them.
"""

import socket
import struct
import threading
from contextlib import suppress

from pamqp import base, body, commands, frame, heartbeat
from pamqp.exceptions import UnmarshalingException

from leveret.broker.amqp.methods import method_frame
from tests.patience import PATIENCE_SECONDS

HEADER = b"AMQP\0\0\x09\x01"
FRAME_HEADER = struct.Struct(">BHI")
FRAME_END_BYTES = 1
TUNE = {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 60}
CAPABILITIES = {"consumer_priorities": True, "basic.nack": True, "publisher_confirms": True}


def silent(_session, _channel, _method):
    """No answer, and the connection stays."""


def closing_channel(code, text):
    """The channel is closed with this code and text."""

    def answer(session, channel, method):
        close = commands.Channel.Close(code, text, method.index >> 16, method.index & 0xFFFF)
        session.send(channel, close)
        session.closing.add(channel)

    return answer


def closing_connection(code, text):
    """The connection is closed with this code and text."""
    return lambda session, _channel, _method: session.send(
        0, commands.Connection.Close(code, text, 0, 0)
    )


def sending(data):
    """These bytes, whatever they are."""
    return lambda session, _channel, _method: session.connection.sendall(data)


def dropping(session, _channel, _method):
    """The socket is closed."""
    session.connection.shutdown(socket.SHUT_RDWR)


class FarSide:
    """A server that does what a test says. sessions: of clients, the newest one last."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.answers = {}
        self.sessions = []
        self._threads = []

    @property
    def uri(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    def __enter__(self):
        self._run(self._accept)
        return self

    def __exit__(self, *exception):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for session in self.sessions:
            with suppress(OSError):
                session.connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def _run(self, function):
        thread = threading.Thread(target=function, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                session = Session(self, connection)
                self.sessions.append(session)
                self._run(session.serve)


class Session:
    """One connection. bodies: of the messages that were published. closing: channels whose closing
    the client has not confirmed.
    """

    def __init__(self, far, connection):
        self._far = far
        self.connection = connection
        self.bodies = []
        self.closing = set()
        self._tags = {}

    def send(self, channel, method):
        self.connection.sendall(frame.marshal(method, channel))

    def serve(self):
        """Until the connection is closed."""
        with suppress(OSError, EOFError, UnmarshalingException):
            assert self._read(len(HEADER)) == HEADER
            start = commands.Connection.Start(
                server_properties={"capabilities": CAPABILITIES}, mechanisms="PLAIN"
            )
            self.send(0, start)
            while True:
                self._handle(*self._read_frame())
        self.connection.close()

    def _read(self, count):
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _read_frame(self):
        head = self._read(FRAME_HEADER.size)
        _, channel, size = FRAME_HEADER.unpack(head)
        return channel, frame.unmarshal(head + self._read(size + FRAME_END_BYTES))[2]

    def _handle(self, channel, content):
        answer = self._far.answers.get(type(content))
        if isinstance(content, commands.Channel.CloseOk):
            self.closing.discard(channel)
        elif channel in self.closing:
            return
        elif answer is not None:
            answer(self, channel, content)
        elif isinstance(content, heartbeat.Heartbeat):
            self.connection.sendall(content.marshal())
        elif isinstance(content, commands.Basic.Publish):
            self.publish(channel, content)
        elif isinstance(content, body.ContentBody):
            self.bodies.append(content.value)
            if commands.Basic.Publish not in self._far.answers:
                self.send(channel, commands.Basic.Ack(self._tags[channel]))
        elif isinstance(content, base.Frame):
            self._answer(channel, content)

    def publish(self, channel, _method):
        """A message begins."""
        self._tags[channel] = self._tags.get(channel, 0) + 1

    def _answer(self, channel, method):
        match method:
            case _ if getattr(method, "nowait", False):
                return
            case commands.Connection.StartOk():
                self.send(0, commands.Connection.Tune(**TUNE))
            case commands.Queue.Declare():
                # pamqp knows fewer names of queues than brokers take.
                found = {"queue": method.queue or "named", "message_count": 0, "consumer_count": 0}
                self.connection.sendall(method_frame(channel, commands.Queue.DeclareOk, **found))
            case commands.Queue.Delete():
                self.send(channel, commands.Queue.DeleteOk(0))
            case commands.Basic.Consume():
                self.send(channel, commands.Basic.ConsumeOk(method.consumer_tag or "tag"))
            case commands.Basic.Cancel():
                self.send(channel, commands.Basic.CancelOk(method.consumer_tag))
            case _ if method.valid_responses:
                (name,) = (one for one in method.valid_responses if one.endswith("Ok"))
                self.send(channel, method_named(name)())


def method_named(name):
    """The class of a method by its name, as `Queue.BindOk`."""
    group, method = name.split(".")
    return getattr(getattr(commands, group), method)
