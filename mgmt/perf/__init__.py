"""`leveret perf`: a load tool with PerfTest's options.

Floors, from below:

- `schedule`, `histogram`, `options`, `counts`, `messages`, `deliveries`, `confirms`, `bodies` and
  `samples` are pure, and so are `lines` and `live`, which say what a run looks like.
- `address` and `connection` speak AMQP; `topology` says who uses which queue, and makes them.
- `producer` and `consumer` are one channel each.
- `worker` is a process with some of both, and `worker_process` how it is seen from outside.
- `run` steers the workers, and `report` shows what they did.
- `values`, `option_table` and `arguments` read the command line, and `main` is the command.
"""
