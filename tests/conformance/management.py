"""The few calls of the management HTTP API that scenarios need."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request

from tests.patience import PATIENCE_SECONDS


class ManagementApi:
    def __init__(self, host, port, user, password):
        self.base = f"http://{host}:{port}/api"
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}

    def put(self, *path, **body):
        return self._request("PUT", path, body)

    def delete(self, *path):
        return self._request("DELETE", path)

    def post(self, *path, **body):
        return self._request("POST", path, body)

    def get(self, *path):
        return self._request("GET", path)

    def _request(self, verb, path, body=None):
        url = "/".join([self.base] + [urllib.parse.quote(part, safe="") for part in path])
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self.headers, method=verb)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            text = response.read()
        return json.loads(text) if text else None

    # What scenarios set up

    def add_vhost(self, vhost, owner):
        self.put("vhosts", vhost)
        self.permit(vhost, owner)

    def add_user(self, user, password):
        self.put("users", user, password=password, tags="")

    def permit(self, vhost, user, configure=".*", write=".*", read=".*"):
        self.put("permissions", vhost, user, configure=configure, write=write, read=read)

    def set_policy(self, vhost, name, pattern, definition, priority=0, apply_to="all"):
        self.put(
            "policies",
            vhost,
            name,
            pattern=pattern,
            definition=definition,
            priority=priority,
            **{"apply-to": apply_to},
        )

    def set_operator_policy(self, vhost, name, pattern, definition, priority=0):
        self.put(
            "operator-policies",
            vhost,
            name,
            pattern=pattern,
            definition=definition,
            priority=priority,
            **{"apply-to": "queues"},
        )

    def set_vhost_limit(self, vhost, limit, value):
        self.put("vhost-limits", vhost, limit, value=value)
