"""TLS sessions of listeners, and the contexts that create them.

They add two things that an event loop lacks: a failed handshake is logged and its alert is
sent to the client, and a listener's context can be replaced while the listener is open. Both hook
into the calls by which the loop creates a session and runs its handshake.
"""

import logging
import ssl

from leveret.broker.runtime.tls_errors import reason_of

logger = logging.getLogger("leveret.tls")


class ServerSession(ssl.SSLObject):
    """The TLS session of one client. Logs why a handshake fails, and sends the alert.

    An event loop does neither: it closes the connection with the alert still unsent.
    outgoing: bytes that the loop has not sent yet.
    """

    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Continue the handshake. Raises ssl.SSLError."""
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            logger.warning("the TLS handshake of a client failed: %s", reason_of(error))
            if not self.outgoing.pending:
                raise
            # To wait for the client, the loop first sends the alert. Then the client's answer,
            # its disconnect or the handshake timeout ends the connection.
            self._failure = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "an alert is to be sent") from error
        self._check_depth()

    def _check_depth(self) -> None:
        context = self.context
        if not isinstance(context, ServerContext) or context.verify_mode is ssl.CERT_NONE:
            return
        # SSLObject itself has this method from Python 3.13 on.
        session = self if hasattr(self, "get_verified_chain") else vars(self)["_sslobj"]
        chain = session.get_verified_chain() or ()
        between = len(chain) - 2
        if between > context.depth:
            problem = (
                f"there are {between} authorities between a client's certificate and the topmost "
                f"one, and depth allows for {context.depth}"
            )
            logger.warning("the TLS handshake of a client failed: %s", problem)
            raise ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, problem)


class ServerContext(ssl.SSLContext):
    """A context of a listener.

    depth: as in `TlsOptions`. successor: the context that creates the sessions instead of this one.
    """

    sslobject_class = ServerSession
    depth = 0
    successor: "ServerContext | None" = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Create the session of an accepted connection; called by the event loop."""
        if self.successor is not None:
            return self.successor.wrap_bio(
                incoming, outgoing, server_side, server_hostname, session
            )
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, ServerSession)
        made.outgoing = outgoing
        return made
