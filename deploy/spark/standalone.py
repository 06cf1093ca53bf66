"""A Spark cluster on loopback: a master and some workers of Spark's standalone mode, from the pyspark of pip.

Run as `python -m deploy.spark.standalone [--workers N] [--folder DIR]`; prints the URL for `--master`, and ends with
Ctrl-C. pip's pyspark has no start scripts, but the classes that they start.
"""

import argparse
import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster.model.errors import StartupError
from deploy.local.java import find_java, spark_environment

_LOOPBACK: Final = "127.0.0.1"
_DEADLINE_SECONDS: Final = 120
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class StandaloneCluster:
    """Its processes; logs and working directories are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "conf").mkdir(parents=True, exist_ok=True)
        (folder / "conf" / "log4j2.properties").write_text(_LOG4J)

    def start(self, workers: int, cores: int = 1, memory: str = "1g") -> None:
        """Start all processes; `cores` and `memory` are of each worker. Raises StartupError."""
        master = self._start("master", _MASTER)
        self.url = self._wait_for("master", master, _STARTED)
        for number in range(workers):
            work = self.folder / f"work-{number}"
            sizes = ["--cores", str(cores), "--memory", memory, "--work-dir", str(work)]
            self.workers.append(self._start(f"worker-{number}", _WORKER, *sizes, self.url))
        for number, process in enumerate(self.workers):
            self._wait_for(f"worker-{number}", process, re.compile(f"({_REGISTERED})"))

    def stop(self) -> None:
        """End all processes. An executor ends when its worker does."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait()

    def log(self, name: str) -> Path:
        """The log of `master` or `worker-<number>`."""
        return self.folder / f"{name}.log"

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        binds = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [_spark_home() / "bin" / "spark-class", program, *binds, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment()},
                cwd=self.folder,
            )
        self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        return {
            **spark_environment(find_java(), self.folder / "java"),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_LOCAL_IP": _LOOPBACK,
        }

    def _wait_for(self, name: str, process: subprocess.Popen[bytes], line: re.Pattern[str]) -> str:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            found = line.search(self.log(name).read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise StartupError(f"the Spark {name} did not start; see {self.log(name)}")


@contextlib.contextmanager
def standalone_cluster(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[StandaloneCluster]:
    """A cluster that is stopped at the end. Raises StartupError."""
    cluster = StandaloneCluster(folder)
    try:
        cluster.start(workers, cores, memory)
        yield cluster
    finally:
        cluster.stop()


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise StartupError("pyspark is not installed: install klamm with the extra 'audit'")
    return Path(found.origin).parent


def main() -> None:
    """Run a cluster until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description="A Spark cluster on loopback.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    parser.add_argument("--folder", type=Path, help="for logs and working directories; default: a temporary one")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="klamm-spark-"))
    try:
        with standalone_cluster(folder.resolve(), options.workers, options.cores, options.memory) as cluster:
            sys.stdout.write(f"{cluster.url}\n")
            sys.stdout.flush()
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except StartupError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
