"""The part of an etcd server with its JSON gateway that peer discovery uses.

Answers are those of etcd 3.4: numbers of 64 bits as texts, zeros and empty lists left out.
"""

import asyncio
import base64
from collections import deque

from tests.unit.cluster.discovery.json_server import Answer, JsonServer

HEADER = {
    "cluster_id": "14841639068965178418",
    "member_id": "10276657743932975437",
    "revision": "2",
}
FIRST_LEASE = 7587899089471228678


class EtcdServer(JsonServer):
    """Keys, leases by ID with their TTL, and one lock. passwords: by user; empty: no users."""

    def __init__(self, passwords=None):
        super().__init__()
        self.passwords, self.tokens = passwords or {}, []
        self.keys, self.leases = {}, {}
        self.leases_of_keys = {}
        self.holder, self.waiting = "", deque()

    async def answer_to(self, asked):
        path, body = asked.path.removeprefix("/v3/"), asked.body
        if path == "auth/authenticate":
            return self._authenticate(body)
        if self.passwords and "Authorization" not in asked.headers:
            return refusal(400, 3, "user name is empty")
        if self.passwords and asked.headers["Authorization"] not in self.tokens:
            return refusal(401, 16, "invalid auth token")
        kind, _, verb = path.partition("/")
        if path == "lock/lock":
            return await self._lock(body)
        answers = {
            "kv/range": self._range, "kv/put": self._put, "kv/deleterange": self._delete,
            "lease/grant": self._grant, "lease/keepalive": self._keep_alive,
            "lease/revoke": self._revoke, "lock/unlock": self._unlock,
        }  # fmt: skip
        return Answer({"header": HEADER, **answers[f"{kind}/{verb}"](body)})

    def _authenticate(self, body):
        if self.passwords.get(body["name"]) != body["password"]:
            return refusal(400, 3, "authentication failed, invalid user ID or password")
        self.tokens.append(f"token-{len(self.tokens)}")
        return Answer({"header": HEADER, "token": self.tokens[-1]})

    def _range(self, body):
        first, last = base64.b64decode(body["key"]), base64.b64decode(body["range_end"])
        found = [
            {"key": key, "value": value}
            for key, value in self.keys.items()
            if first <= base64.b64decode(key) < last
        ]
        return {"kvs": found, "count": str(len(found))} if found else {}

    def _put(self, body):
        assert body["lease"] in self.leases
        self.keys[body["key"]] = body["value"]
        self.leases_of_keys[body["key"]] = body["lease"]
        return {}

    def _delete(self, body):
        return {"deleted": "1"} if self.keys.pop(body["key"], None) else {}

    def _grant(self, body):
        lease = str(FIRST_LEASE + len(self.asked))
        self.leases[lease] = body["TTL"]
        return {"ID": lease, "TTL": str(body["TTL"])}

    def _keep_alive(self, body):
        alive = {"TTL": str(self.leases[body["ID"]])} if body["ID"] in self.leases else {}
        return {"result": {"header": HEADER, "ID": body["ID"], **alive}}

    def _revoke(self, body):
        self.expire(body["ID"])
        return {}

    def expire(self, lease):
        """End a lease, with its keys and its lock."""
        del self.leases[lease]
        for key in [key for key, of in self.leases_of_keys.items() if of == lease]:
            self.keys.pop(key, None)
        if self.holder == lease:
            self._give_lock_on()
        for waiting, turn in self.waiting:
            if waiting == lease:
                turn.set()

    async def _lock(self, body):
        if self.holder:
            turn = asyncio.Event()
            self.waiting.append((body["lease"], turn))
            await turn.wait()
            if body["lease"] not in self.leases:
                return refusal(404, 5, "requested lease not found")
        self.holder = body["lease"]
        name = base64.b64decode(body["name"]) + f"/{int(self.holder):x}".encode()
        return Answer({"header": HEADER, "key": base64.b64encode(name).decode()})

    def _unlock(self, body):
        self._give_lock_on()
        return {}

    def _give_lock_on(self):
        self.holder = ""
        while self.waiting:
            lease, turn = self.waiting.popleft()
            turn.set()
            if lease in self.leases:
                return


def refusal(status, code, text):
    text = f"etcdserver: {text}"
    return Answer({"error": text, "message": text, "code": code}, status)
