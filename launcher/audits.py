"""`klamm audit`: the commands of the audit, with a Java for Spark found before they start."""

import os
import sys
from pathlib import Path

import typer

from audit.cli import app
from launcher.installation import require_extras


@app.callback(help="Prove what the state-change logs say.")
def prepare(context: typer.Context) -> None:
    """Put a fitting Java where Spark looks for one; only a run of the job needs it, and only `verify` no extra."""
    if "--help" in sys.argv:
        return
    if context.invoked_subcommand != "verify":
        require_extras("audit")
    if context.invoked_subcommand == "run":
        from deploy.local.java import find_java, spark_environment

        os.environ.update(spark_environment(find_java(), Path(sys.prefix) / "klamm-java"))


__all__ = ["app"]
