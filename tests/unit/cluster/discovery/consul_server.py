"""The part of a Consul agent that peer discovery uses: services, TTL checks, sessions, a key."""

import asyncio
import itertools

from tests.unit.cluster.discovery.json_server import Answer, JsonServer

SERF = {"CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "passing", "Output": ""}


class ConsulServer(JsonServer):
    """Services by ID in `services`, with the status of their checks in `statuses`."""

    def __init__(self, token=""):
        super().__init__()
        self.token, self.unknown_status = token, 404
        self.services, self.statuses = {}, {}
        self.sessions, self.holder, self.index = {}, "", 100
        self.session_numbers = itertools.count()
        self.changed = asyncio.Event()

    async def answer_to(self, asked):
        if asked.headers.get("X-Consul-Token", "") != self.token:
            return Answer(b"Permission denied: token with AccessorID lacks permission", 403)
        kind, _, rest = asked.path.removeprefix("/v1/").partition("/")
        answer = {
            "health": self._health, "agent": self._agent, "session": self._session, "kv": self._kv
        }[kind](rest, asked)  # fmt: skip
        return await answer if asyncio.iscoroutine(answer) else answer

    def _health(self, path, asked):
        name = path.removeprefix("service/")
        found = [
            self._instance(service)
            for service in self.services.values()
            if service["Name"] == name
            and ("tag" not in asked.query or asked.query["tag"] in service.get("Tags", ()))
            and ("passing" not in asked.query or self.statuses[service["ID"]] == "passing")
        ]
        return Answer(found, headers={"X-Consul-Index": str(self.index)})

    def _instance(self, service):
        check = {
            "CheckID": f"service:{service['ID']}", "ServiceName": service["Name"],
            "Status": self.statuses[service["ID"]], "Output": "",
        }  # fmt: skip
        return {
            "Node": {"ID": "", "Node": service.get("Host", "agent-host"), "Address": "10.0.9.9"},
            "Service": {
                "ID": service["ID"], "Service": service["Name"], "Port": service["Port"],
                "Tags": service.get("Tags"), "Meta": service.get("Meta"),
                "Address": service.get("Address", ""),
            },
            "Checks": [SERF, check],
        }  # fmt: skip

    def _agent(self, path, asked):
        if path == "service/register":
            self.services[asked.body["ID"]] = asked.body
            self.statuses[asked.body["ID"]] = asked.body["Check"]["Status"]
            return Answer()
        verb, _, name = path.rpartition("/")
        if verb == "service/deregister":
            del self.services[name]
            return Answer()
        assert verb == "check/pass"
        check = name.removeprefix("service:")
        if check not in self.services:
            return Answer(f'Unknown check ID "{name}"'.encode(), self.unknown_status)
        self.statuses[check] = "passing"
        return Answer()

    def _session(self, path, asked):
        verb, _, name = path.partition("/")
        if verb == "create":
            name = f"session-{next(self.session_numbers)}"
            self.sessions[name] = asked.body
            return Answer({"ID": name})
        if name not in self.sessions:
            return Answer(f"Session id '{name}' not found".encode(), 404)
        if verb == "renew":
            return Answer([{"ID": name, **self.sessions[name]}])
        assert verb == "destroy"
        del self.sessions[name]
        if self.holder == name:
            self.change("")
        return Answer(True)

    async def _kv(self, path, asked):
        if asked.method == "GET":
            if int(asked.query.get("index", 0)) == self.index:
                self.changed.clear()
                await self.changed.wait()
            key = {"LockIndex": 1, "Key": path, "Flags": 0, "Value": None,
                   "CreateIndex": 90, "ModifyIndex": self.index}  # fmt: skip
            return Answer([key | ({"Session": self.holder} if self.holder else {})])
        if "release" in asked.query:
            was_held = self.holder == asked.query["release"]
            self.change("" if was_held else self.holder)
            return Answer(was_held)
        if self.holder in ("", asked.query["acquire"]):
            self.change(asked.query["acquire"])
            return Answer(True)
        return Answer(False)

    def change(self, holder):
        """Give the lock to a session, or release it."""
        self.holder, self.index = holder, self.index + 1
        self.changed.set()
