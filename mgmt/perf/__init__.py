"""`leveret perf`: a load tool with PerfTest's options.

Layers, from the bottom:

- `schedule`, `histogram`, `options`, `counts`, `messages`, `deliveries`, `confirms`, `bodies` and
  `samples` are pure, and so are `lines` and `live`, which format the results of a run.
- `address` and `connection` speak AMQP; `topology` declares and assigns queues.
- `producer` and `consumer` are one channel each.
- `worker` is a process with producers and consumers, `worker_process` its handle in the parent.
- `run` controls the workers, and `report` shows their results.
- `option_values`, `option_table` and `arguments` read the command line; `perf_command` is the
  command.
"""
