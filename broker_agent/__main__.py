"""`python -m broker_agent --config FILE`: one broker agent, until SIGTERM."""

import argparse
import resource
import sys
from functools import partial
from pathlib import Path

from broker_agent.program import run
from cluster.errors import ConfigError
from cluster.process.config import load_config
from cluster.process.diagnostics import configure_diagnostics
from cluster.process.exit_codes import ExitCode
from cluster.process.tasks import run_program


def main(config: Path | None) -> int:
    """Run with that TOML file; returns the exit code."""
    configure_diagnostics("broker")
    try:
        node = load_config(config)
    except ConfigError as error:
        sys.stderr.writelines(f"klamm: {line}\n" for line in error.errors)
        return ExitCode.USAGE
    _allow_many_files()
    return run_program(partial(run, node))


def _allow_many_files() -> None:
    """Raise the soft limit of open files: each segment holds one, so 1024 end at the first thousand partitions."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="broker_agent", description="Run one broker agent.")
    parser.add_argument("--config", type=Path, help="TOML file: id, zookeeper, listen, data, settings")
    sys.exit(main(parser.parse_args().config))
