"""The exit codes of all commands and processes."""

from enum import IntEnum


class ExitCode(IntEnum):
    """`sys.exit` and typer accept the members."""

    OK = 0
    REFUSED = 1
    """The cluster refused the request, is not reachable, or did not answer in time; what it was asked to change may
    then still be carried out, and the message says so. Of a controller or broker: it cannot run now, for lack of
    ZooKeeper or of an address; or it failed by a bug. Another attempt may help.
    """
    USAGE = 2
    """The command line or a setting is invalid; a retry does not help."""
    FINDINGS = 3
    """Completed, and an audit, a check or a simulation found something."""
    INCOMPLETE = 4
    """Nothing found, but not everything could be checked."""
    DISK = 5
    """A broker has no log directory that it can use, or none any more: its disks need a person."""
    ID_TAKEN = 6
    """Another process is registered with this id. It ends with that process, or with the session of one that died."""
    PIPE_CLOSED = 141
    """Whoever reads stdout has closed it, as `head` does: 128 + SIGPIPE, as of a program that the signal ends."""
