"""The sessions of TLS listeners, and the contexts that make them.

Two things are wanted of a listener that an event loop does not do: handshakes that fail are to be
heard of, here and by the client, and the context is to be replaced while the listener is open. Both
are done where the loop asks a context for a session and the session for its handshake.
"""

import logging
import ssl

logger = logging.getLogger("leveret.tls")


class ServerSession(ssl.SSLObject):
    """The TLS session of one client. Says why a handshake fails, in the log and to the client.

    An event loop does neither: it drops the connection at once, with the alert still unsent.
    outgoing: what the loop has yet to send.
    """

    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises ssl.SSLError."""
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
            # A loop that is to wait for the client sends the alert first. What comes next, the
            # client's answer or the end of its patience or ours, ends the connection.
            self._failure = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "an alert is to be sent") from error
        self._check_depth()

    def _check_depth(self) -> None:
        context = self.context
        if not isinstance(context, ServerContext) or context.verify_mode is ssl.CERT_NONE:
            return
        # A method of SSLObject itself from Python 3.13 on.
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

    depth: see `TlsOptions`. successor: the context that makes the sessions in place of this one.
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
        """A session, for a connection that was just accepted; the event loop calls it."""
        if self.successor is not None:
            return self.successor.wrap_bio(
                incoming, outgoing, server_side, server_hostname, session
            )
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, ServerSession)
        made.outgoing = outgoing
        return made


def reason_of(error: ssl.SSLError) -> str:
    """What OpenSSL says is wrong, in words."""
    verified: str = getattr(error, "verify_message", "")
    code: str | None = getattr(error, "reason", None)
    return verified or (code.replace("_", " ").lower() if code else str(error.args[-1]))
