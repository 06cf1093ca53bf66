"""`klamm audit`: the commands of the audit, after finding a Java for Spark."""

import os
import sys
from pathlib import Path

import typer

from audit.cli import app
from launcher.installation import require_extras


@app.callback(help="Audit state-change logs: check invariants, report findings, detect tampering.")
def prepare(context: typer.Context) -> None:
    """Find a Java for `run`, which starts Spark. All commands but `verify` need the extra `audit`."""
    if "--help" in sys.argv:
        return
    if context.invoked_subcommand != "verify":
        require_extras("audit")
    if context.invoked_subcommand == "run":
        from deploy.local.java import find_java, spark_environment

        os.environ.update(spark_environment(find_java(), Path(sys.prefix) / "klamm-java"))


__all__ = ["app"]
