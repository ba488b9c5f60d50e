"""Files that the compared nodes start with: definitions, a TLS certificate, and what to trace.

The definitions have policies: one gives the queues of one load a time to live, others mirror those
of some loads of clusters; no other queue matches them. The certificate is made by `openssl`; where
that program is missing there is no TLS listener.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

PLUGIN = "rabbitmq_consistent_hash_exchange"
RABBITMQ_TRACES = '[{rabbit, [{trace_vhosts, [<<"/">>]}]}].\n'
TTL_POLICY_PREFIX = "bench-feature-ttl-policy"
TTL_MS = 60_000
SALT = b"salt"


def _policy(prefix: str, definition: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of queues whose names begin like this."""
    named = {"vhost": "/", "name": prefix, "pattern": f"^{prefix}", "apply-to": "queues"}
    return {**named, "priority": 0, "definition": definition}


def definitions() -> str:
    """Return the definitions of a fresh node: its default user and virtual host, and policies."""
    digest = b64encode(SALT + hashlib.sha256(SALT + b"guest").digest()).decode()
    user = {
        "name": "guest",
        "password_hash": digest,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "administrator",
    }
    rights = dict.fromkeys(("configure", "write", "read"), ".*")
    policies = {
        TTL_POLICY_PREFIX: {"message-ttl": TTL_MS},
        "bench-mirrored-2": {"ha-mode": "exactly", "ha-params": 2},
        "bench-mirrored-3": {"ha-mode": "all"},
    }
    return json.dumps({
        "vhosts": [{"name": "/"}],
        "users": [user],
        "permissions": [{"user": "guest", "vhost": "/", **rights}],
        "policies": [_policy(prefix, definition) for prefix, definition in policies.items()],
    })  # fmt: skip


def _certificate(directory: Path) -> bool:
    program = shutil.which("openssl")
    if program is None:
        return False
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    done = subprocess.run([program, *words], cwd=directory, capture_output=True, check=False)
    return done.returncode == 0


def shared_settings(directory: Path, host: str, tls_port: int) -> str:
    """Write the files into the directory; return lines of configuration for either broker."""
    (directory / "definitions.json").write_text(definitions())
    lines = [f"load_definitions = {directory / 'definitions.json'}"]
    if _certificate(directory):
        lines += [
            f"listeners.ssl.1 = {host}:{tls_port}",
            f"ssl_options.cacertfile = {directory / 'cert.pem'}",
            f"ssl_options.certfile = {directory / 'cert.pem'}",
            f"ssl_options.keyfile = {directory / 'key.pem'}",
            "ssl_options.verify = verify_none",
        ]
    return "\n".join(lines) + "\n"
