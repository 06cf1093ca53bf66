"""To which broker and cluster a log directory belongs: its `meta.properties`.

Source: Kafka BrokerMetadataCheckpoint; klamm for disks that were replaced.
"""

from collections.abc import Sequence
from functools import partial

from broker_agent.log import checkpoints
from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import describe, is_error_of_disk
from broker_agent.log.log_directory import LogDirectory
from cluster.model.broker import BrokerId
from cluster.model.errors import FullDirectoryError, LogOperationError, StartupError, StorageError


async def read_stored_broker_id(disk: Disk, directories: Sequence[str]) -> BrokerId | None:
    """The broker id in `meta.properties`; None if no readable directory has one.

    Raises StartupError if two directories disagree.
    """
    found: dict[BrokerId, str] = {}
    for directory in directories:
        path = f"{directory}/{checkpoints.META_PROPERTIES}"
        try:
            properties = checkpoints.decode_meta_properties(await disk.run(partial(disk.read_file, path)))
        except OSError as error:
            if not is_error_of_disk(error):
                raise StartupError(f"log directory {directory}: {describe(error)}") from error
            continue  # An unreadable directory fails when it is opened; it has no say here.
        if properties is not None:
            found.setdefault(properties.broker_id, path)
    if len(found) > 1:
        listed = ", ".join(f"{broker_id} in {path}" for broker_id, path in sorted(found.items()))
        raise StartupError(f"log directories belong to different brokers: {listed}")
    return next(iter(found), None)


def wait_for_room(directory: LogDirectory, error: FullDirectoryError) -> None:
    """Take a directory out of service that cannot be opened for want of room."""
    assert isinstance(error.__cause__, OSError), "it was the disk that had no room"
    directory.fail(error.__cause__)


async def take_possession(disk: Disk, directory: LogDirectory, owner: MetaProperties) -> None:
    """Lock a directory, and check that it belongs to the broker. Raises StartupError if it does not."""
    path = directory.path
    try:
        with directory:
            await disk.run(lambda: disk.make_directory(path))
            directory.lock()
            file = f"{path}/{checkpoints.META_PROPERTIES}"
            read = partial(checkpoints.read_checkpoint, disk, file, checkpoints.decode_meta_properties)
            found = await disk.run(read)
            directory.is_new, directory.was_identified = found is None, found is not None
    except FullDirectoryError as error:
        wait_for_room(directory, error)
        return
    except LogOperationError:
        raise
    except StorageError:
        return
    for key, mine, theirs in (
        ("cluster.id", owner.cluster_id, owner.cluster_id if found is None else found.cluster_id),
        ("broker.id", owner.broker_id, owner.broker_id if found is None else found.broker_id),
    ):
        if mine != theirs:
            raise StartupError(
                f"{path}/{checkpoints.META_PROPERTIES} says {key}={theirs}, expected {mine}; "
                "the log directory belongs to another broker or cluster"
            )


async def identify(disk: Disk, directory: LogDirectory, owner: MetaProperties) -> None:
    """Write to whom a new directory belongs. One without the room for it is taken out of service until it has some."""
    content = checkpoints.encode_meta_properties(owner)
    try:
        with directory:
            await disk.run(
                partial(checkpoints.write_atomically, disk, directory.path, checkpoints.META_PROPERTIES, content)
            )
            directory.is_new, directory.was_identified = False, True
    except FullDirectoryError as error:
        wait_for_room(directory, error)
    except LogOperationError:
        raise
    except StorageError:
        return  # It failed, and reported it.
