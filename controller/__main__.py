"""`python -m controller --config FILE`: one controller process."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.aio.tasks import run_program
from cluster.config.config import load_config
from cluster.model.errors import ConfigError
from cluster.model.exit_codes import ExitCode
from controller.program import run


def main(config_path: Path | None, flags: Mapping[str, Any] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. `flags`: fields that win over the file's."""
    # The only data of a controller is its state-change log; by default it is stored beside the configuration file.
    defaults = {} if config_path is None else {"data": str(config_path.absolute().with_suffix(""))}
    try:
        config = load_config(config_path, flags, defaults=defaults)
    except ConfigError as error:
        sys.stderr.writelines(f"klamm: {line}\n" for line in error.errors)
        return ExitCode.USAGE
    return run_program(lambda stop: run(config, stop))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="TOML file")
    sys.exit(main(parser.parse_args().config))
