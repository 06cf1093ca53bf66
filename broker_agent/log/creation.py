"""Creates a log so that its name survives a power failure. Source: Kafka LogManager.createLogDirectory."""

from functools import partial

from broker_agent.log.config import LogConfig
from broker_agent.log.disk_errors import is_error_of_disk
from broker_agent.log.log_directory import LogDirectory
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.recovery import create_log
from broker_agent.log.segments import LogDependencies
from cluster.model.broker import TopicId
from cluster.model.partition import TopicPartition


async def create_in(
    dependencies: LogDependencies,
    directory: LogDirectory,
    path: str,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    topic_id: TopicId | None,
) -> PartitionLog:
    """Create the empty log of a partition at `path` in a log directory; its name is durable. Disk I/O in a thread.

    Raises StorageError. Nothing is left of a log after an error that leaves the directory in service.
    """
    disk = dependencies.disk
    with directory:
        loaded = await directory.creations.run(partial(create_log, dependencies, path, config, topic_id))
        try:
            await directory.flush_names()
        except OSError as error:
            loaded.segments.close()
            if not is_error_of_disk(error):
                disk.remove_tree(path)
            raise
    with directory:  # It may have failed while the thread was at work.
        return PartitionLog(
            dependencies, directory, path, topic_partition=topic_partition, config=config, loaded=loaded
        )
