"""The mechanism RABBIT-CR-DEMO: as secure as PLAIN, but with a challenge.

Client libraries test connection.secure with it. The client's connection.start-ok contains its user
name, the server asks for the password in a connection.secure, and the client's secure-ok is a
sentence that ends with the password (`rabbit_auth_mechanism_cr_demo`). Pure; a connection's login
sends and receives. The mechanism is offered only if `auth_mechanisms` contains it.
"""

from leveret.broker.amqp.field_table import text_of
from leveret.broker.auth.sasl import Credentials, SaslError

MECHANISM = "RABBIT-CR-DEMO"
CHALLENGE = b"Please tell me your password"
_ANSWER = b"My password is "


class ChallengeResponse:
    """One client's login: first `challenge`, then `credentials`."""

    __slots__ = ("_name",)

    def __init__(self) -> None:
        self._name = ""

    def challenge(self, start_response: bytes) -> bytes:
        """The challenge of connection.secure. start_response: connection.start-ok's response."""
        self._name = text_of(start_response)
        return CHALLENGE

    def credentials(self, secure_response: bytes) -> Credentials:
        """Name and password. secure_response: connection.secure-ok's. Raises SaslError."""
        if not secure_response.startswith(_ANSWER):
            # The error does not quote the response, which may contain a password.
            raise SaslError(
                f"a {MECHANISM} response has to begin with '{_ANSWER.decode()}', "
                "and the client's does not"
            )
        return Credentials(self._name, text_of(secure_response.removeprefix(_ANSWER)))
