"""How the last process that used a log directory ended, by two files of it: the clean-shutdown marker and the boot id.

Without the marker the boot id tells a killed process, of which the kernel has kept every write, from a machine that was
restarted, which has kept only what was flushed. Source: Kafka CleanShutdownFileHandler; klamm for the boot id. D-119
"""

from enum import Enum, auto

import structlog

from broker_agent.log import checkpoints
from broker_agent.log.checkpoints import MalformedCheckpointError
from broker_agent.log.disk import Disk

_log = structlog.stdlib.get_logger()


class LastShutdown(Enum):
    """CLEAN: all logs were closed. KILLED: they were not, but the machine has run on since, so that nothing written is
    lost. UNCLEAN: what was not flushed may be lost.
    """

    CLEAN = auto()
    KILLED = auto()
    UNCLEAN = auto()


def is_new_to_klamm(disk: Disk, path: str) -> bool:
    """Whether no process of klamm has used the directory yet: what is in it was written by Apache Kafka. Asked before
    `take_last_shutdown`. Blocks on disk I/O; raises OSError.
    """
    return disk.read_file(f"{path}/{checkpoints.BOOT_ID}") is None


def take_last_shutdown(disk: Disk, path: str, boot_id: str) -> LastShutdown:
    """Read how the last process ended, and delete the marker durably, before any log is opened. Blocks on disk I/O;
    raises OSError.

    `boot_id`: the present boot of the machine, empty where it is not known. It is remembered, unless the shutdown was
    unclean: then the caller does so, once the replicas that may lack records are written down. Until then each start
    finds the same.
    """
    marker = f"{path}/{checkpoints.CLEAN_MARKER}"
    if disk.read_file(marker) is not None:
        # Before the marker goes: whatever happens from now on happens under this boot.
        if _stored_boot_id(disk, path) != boot_id:
            store_boot_id(disk, path, boot_id)
        disk.remove_file(marker)
        disk.sync_directory(path)
        return LastShutdown.CLEAN
    return LastShutdown.KILLED if boot_id and _stored_boot_id(disk, path) == boot_id else LastShutdown.UNCLEAN


def store_boot_id(disk: Disk, path: str, boot_id: str) -> None:
    """Remember the boot of the machine. Blocks on disk I/O; raises OSError."""
    checkpoints.write_atomically(disk, path, checkpoints.BOOT_ID, checkpoints.encode_boot_id(boot_id))


def _stored_boot_id(disk: Disk, path: str) -> str:
    """The boot id in the file; empty if the directory is new or of an earlier release, or the file is malformed."""
    try:
        return checkpoints.read_checkpoint(disk, f"{path}/{checkpoints.BOOT_ID}", checkpoints.decode_boot_id)
    except MalformedCheckpointError as error:
        _log.warning("Checkpoint counts as empty", why=str(error))
        return ""
