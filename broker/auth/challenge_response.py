"""The mechanism RABBIT-CR-DEMO: as safe as PLAIN, but with a challenge.

It is how client libraries test connection.secure. The client answers connection.start with its
user name, the server asks for the password in a connection.secure, and the client's secure-ok is a
sentence that ends with it (`rabbit_auth_mechanism_cr_demo`). Pure; broker/net/login.py sends and
receives. Nobody is offered it who does not name it in `auth_mechanisms`.
"""

from broker.amqp.field_table import text_of
from broker.auth.sasl import Credentials, SaslError

MECHANISM = "RABBIT-CR-DEMO"
CHALLENGE = b"Please tell me your password"
_ANSWER = b"My password is "


class ChallengeResponse:
    """One client's login: first `challenge`, then `credentials`."""

    __slots__ = ("_name",)

    def __init__(self) -> None:
        self._name = ""

    def challenge(self, start_response: bytes) -> bytes:
        """What to ask in connection.secure. start_response: of connection.start-ok."""
        self._name = text_of(start_response)
        return CHALLENGE

    def credentials(self, secure_response: bytes) -> Credentials:
        """Name and password. secure_response: of connection.secure-ok. Raises SaslError."""
        if not secure_response.startswith(_ANSWER):
            # It is not repeated in the error: there may be a password in it.
            raise SaslError(
                f"a {MECHANISM} response has to begin with '{_ANSWER.decode()}', "
                "and the client's does not"
            )
        return Credentials(self._name, text_of(secure_response.removeprefix(_ANSWER)))
