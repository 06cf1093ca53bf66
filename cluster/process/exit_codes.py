"""The exit codes of all commands and processes."""

from enum import IntEnum


class ExitCode(IntEnum):
    """`sys.exit` and typer accept the members."""

    OK = 0
    REFUSED = 1
    """The cluster refused the request or is not reachable; the request was not carried out."""
    USAGE = 2
    """The command line or a setting is invalid; a retry does not help."""
    FINDINGS = 3
    """Completed, and an audit, a check or a simulation found something."""
    INCOMPLETE = 4
    """Nothing found, but not everything could be checked."""
