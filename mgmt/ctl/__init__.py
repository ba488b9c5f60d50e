"""`leveretctl`: the commands of rabbitmqctl and rabbitmq-diagnostics, over the control socket."""
