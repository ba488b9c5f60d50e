"""`leveret perf`: a load tool with PerfTest's options.

Floors, from below: `histogram`, `schedule`, `options` and `messages` are pure; `connection` speaks
AMQP; `producer` and `consumer` are one channel each; `topology` says who uses which queue and makes
them; `worker` is a process with some of both; `run` steers the workers, and `report` shows what
they did. `arguments` reads the command line, and `main` is the command.
"""
