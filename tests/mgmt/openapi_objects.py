"""The objects of a node whose API is compared with its description (test_openapi.py)."""

LOGIN = ("describer", "describer")
CLIENTS_VHOST = "clients"
DEFINITIONS = {
    "vhosts": [{"name": name} for name in ("/", "described", CLIENTS_VHOST)],
    "users": [
        {"name": LOGIN[0], "password": LOGIN[1], "tags": ["administrator"],
         "limits": {"max-channels": 100}},
        {"name": "somebody", "password": "secret", "tags": ["monitoring"]},
    ],
    "permissions": [
        {"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
        for user in (LOGIN[0], "somebody")
        for vhost in ("/", "described", CLIENTS_VHOST)
    ],
    "topic_permissions": [
        {"user": "somebody", "vhost": "described", "exchange": "amq.topic", "write": "^a",
         "read": "^b"},
    ],
    "global_parameters": [{"name": "known", "value": {"a": [1, None, "x"]}}],
    "parameters": [
        {"vhost": "described", "component": "federation-upstream", "name": "known",
         "value": {"uri": "amqp://127.0.0.1:1"}},
        {"vhost": "described", "component": "operator_policy", "name": "known",
         "value": {"pattern": "^q", "definition": {"max-length": 900}, "apply-to": "queues",
                   "priority": 3}},
        *({"vhost": vhost, "component": "vhost-limits", "name": "limits",
           "value": {"max-queues": 5000, "max-connections": -1}}
          for vhost in ("/", "described", CLIENTS_VHOST)),
    ],
    "policies": [
        {"vhost": "described", "name": "known", "pattern": "^(q|x)", "apply-to": "all",
         "priority": 1, "definition": {"alternate-exchange": "amq.fanout", "max-length": 800,
                                      "federation-upstream": "known"}},
    ],
    "queues": [
        {"vhost": vhost, "name": name, "durable": True, "arguments": arguments}
        for vhost in ("described", CLIENTS_VHOST)
        for name, arguments in (("q", {"x-max-priority": 3}), ("q/ü %", {"x-max-length": 10}),
                                ("s", {"x-queue-type": "stream"}))
    ],
    "exchanges": [
        {"vhost": "described", "name": name, "type": kind, "durable": True, "auto_delete": False,
         "internal": False, "arguments": {}}
        for name, kind in (("x", "topic"), ("x2", "headers"))
    ],
    "bindings": [
        {"vhost": "described", "source": "x", "destination": "q", "destination_type": "queue",
         "routing_key": "a.#", "arguments": {}},
        {"vhost": "described", "source": "x", "destination": "x2", "destination_type": "exchange",
         "routing_key": "b", "arguments": {"k": 1.5}},
    ],
}  # fmt: skip
