"""rabbitmqadmin: lists, declares and deletes a node's objects, over its HTTP API.

The commands, options, formats of output, configuration file and exit codes are those of RabbitMQ's
program of this name. A node serves the modules of this package as one file, /cli/rabbitmqadmin
(mgmt/api/rabbitmqadmin_file.py), which needs only Python 3.9 and its standard library: so they
import each other relatively, and nothing else of Leveret. It works with nodes of RabbitMQ too.
"""
