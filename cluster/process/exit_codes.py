"""What the exit code of every command and process says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """`sys.exit` and typer take its members as they are."""

    OK = 0
    REFUSED = 1
    """The cluster refused, or is not there; what was asked for was not done."""
    USAGE = 2
    """The command line or a setting is wrong; repeating it does not help."""
    FINDINGS = 3
    """Done, and an audit, a check or a simulation found something."""
    INCOMPLETE = 4
    """Nothing found, but not everything that was asked about could be checked."""
