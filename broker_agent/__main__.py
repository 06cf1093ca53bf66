"""`python -m broker_agent --config FILE`: one broker agent, until SIGTERM."""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from broker_agent.program import run
from cluster.aio.tasks import run_program
from cluster.config.config import load_config
from cluster.model.errors import ConfigError
from cluster.model.exit_codes import ExitCode
from cluster.process.diagnostics import configure_diagnostics


def main(config: Path | None, flags: Mapping[str, Any] | None = None) -> int:
    """Run with that TOML file; returns the exit code. `flags`: fields that win over the file's."""
    configure_diagnostics("broker")
    try:
        node = load_config(config, flags)
    except ConfigError as error:
        sys.stderr.writelines(f"klamm: {line}\n" for line in error.errors)
        return ExitCode.USAGE
    return run_program(partial(run, node))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="broker_agent", description="Run one broker agent.")
    parser.add_argument("--config", type=Path, help="TOML file: id, zookeeper, listen, data, settings")
    sys.exit(main(parser.parse_args().config))
