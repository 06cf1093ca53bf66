"""What an audit asks of Spark: where it runs, with how much, and any setting of Spark's that a user gives."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from cluster.model.errors import ConfigError

CLUSTER_TASKS: Final = 16
"""Tasks at a time on a cluster whose cores are not given."""
_BUCKETS_MIN: Final = 4
_BUCKETS_MAX: Final = 16
_LAPTOP_CORES_MAX: Final = 4
_MEMORY: Final = re.compile(r"\d+[kmgt]?b?", re.IGNORECASE)
_LOOPBACK: Final = ("127.", "localhost", "[::1]")
REFUSED: Final[Mapping[str, str]] = {
    "spark.master": "--master sets it",
    "spark.submit.deployMode": "the driver is this process",
    "spark.executorEnv.PYTHONPATH": "workers would not find klamm's packages; spark.submit.pyFiles adds others",
    "spark.executorEnv.PYTHONSAFEPATH": "workers would import what lies in their working directory",
    "spark.speculation": "two attempts of a task would write the same files",
    "spark.sql.streaming.checkpointLocation": "--checkpoint sets it",
}
"""Settings that an audit depends on, and why each cannot be given."""
APPENDED: Final = {
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.archives": ",",
}
"""Settings whose value is added to the audit's own, and what stands between."""


class SparkSettings(Struct, frozen=True):
    """Holds what an audit asks of Spark.

    `master`: none means this machine. `cores`: those of the whole application. `memory`: that of each JVM that has the
    work, the one of this machine or each executor; Python's processes are beside it. `conf`: set after all others.
    """

    master: str = ""
    memory: str = "1g"
    cores: int | None = None
    shuffle_partitions: int | None = None
    conf: Mapping[str, str] = {}
    class_archive: bool = True

    def __post_init__(self) -> None:
        if not _MEMORY.fullmatch(self.memory):
            raise ConfigError([f"memory {self.memory!r}: must be a number with a unit, such as 512m or 2g"])

    @property
    def is_local(self) -> bool:
        """Whether driver and work are one JVM."""
        return re.fullmatch(r"(local(\[[^-]*\])?)?", self.master) is not None

    @property
    def is_on_loopback(self) -> bool:
        """Whether everything is on this machine and may stay there."""
        if self.is_local or self.master.startswith("local-cluster["):
            return True
        hosts = urlsplit(self.master).netloc.split(",")
        return self.master.startswith("spark://") and all(host.startswith(_LOOPBACK) for host in hosts)

    @property
    def master_url(self) -> str:
        return self.master or f"local[{self.tasks if self.cores is None else self.cores}]"

    @property
    def tasks(self) -> int:
        """The number of tasks that read, and that check, at a time."""
        named = re.fullmatch(r"local\[(\d+)(,.*)?\]", self.master)
        if self.shuffle_partitions is not None:
            return self.shuffle_partitions
        if self.cores is not None:
            return self.cores
        if named:
            return int(named[1])
        return min(len(os.sched_getaffinity(0)), _LAPTOP_CORES_MAX) if self.is_local else CLUSTER_TASKS

    @property
    def buckets(self) -> int:
        """The number of buckets of a new audit: two for each task. Each costs files and time in each batch."""
        return min(_BUCKETS_MAX, max(_BUCKETS_MIN, 2 * self.tasks))

    def of_cluster(self) -> dict[str, str]:
        """The settings that say how much of a machine or cluster is used."""
        if self.is_local:
            return {"spark.driver.memory": self.memory}
        limits = {} if self.cores is None else {"spark.cores.max": str(self.cores)}
        return {"spark.executor.memory": self.memory, **limits}


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """Parse settings given as `spark.x=y`. Raises ConfigError that names every one that is none, or cannot be given."""
    found, wrong = dict[str, str](), []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.startswith("spark."):
            wrong.append(f"{text}: must be a setting of Spark's with its value, such as spark.executor.cores=2")
        elif name in REFUSED:
            wrong.append(f"{name}: cannot be set: {REFUSED[name]}")
        else:
            found[name] = value
    if wrong:
        raise ConfigError(wrong)
    return found


def combined(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of an audit, with those that were given in their place, or after them (`APPENDED`)."""
    merged = {**ours, **given}
    for name, separator in APPENDED.items():
        if name in ours and name in given:
            merged[name] = f"{ours[name]}{separator}{given[name]}"
    return merged
