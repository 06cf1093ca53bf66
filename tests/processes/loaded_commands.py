"""Imports what most commands need. Only the process that `tests.processes.commands` forks them from imports this."""

import os
from importlib import import_module
from pkgutil import iter_modules

from admin import cli

# As the command line sets it before it imports gRPC.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

for _name in (
    "tests.processes.commands",
    "launcher.local_cluster",
    *(f"admin.cli.{module.name}" for module in iter_modules(cli.__path__)),
    # What they import when they are run.
    "admin.kafka.kafka_brokers",
    "admin.producing.producer",
    "cluster.rpc.channels",
    "cluster.rpc.client_sessions",
    "cluster.rpc.methods",
    "grpc.aio",
    "rich.markdown",
    "typer.rich_utils",
):
    import_module(_name)
