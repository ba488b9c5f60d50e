"""OpenSSL's errors as texts."""

import ssl


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason for an error."""
    verified: str = getattr(error, "verify_message", "")
    code: str | None = getattr(error, "reason", None)
    return verified or (code.replace("_", " ").lower() if code else str(error.args[-1]))
