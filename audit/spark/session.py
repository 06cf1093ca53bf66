"""The Spark session of an audit: how it is configured and started."""

import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from pathlib import Path
from subprocess import PIPE
from typing import Final

from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from audit.spark.class_archive import class_archive_options, is_running
from audit.spark.errors import LOG, AuditFailedError, begin_log, explained
from audit.spark.interrupts import deferred_interrupts
from audit.spark.packages import FOLDER, current_package, python_of_workers
from audit.spark.settings import SparkSettings, combined
from audit.storage.file_store import Location, is_remote, open_store

_APPLICATION: Final = Path(__file__).resolve().parents[2]
_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
_QUICK_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of the JVM. The work is done in Python; the JVM only has to be there soon."""
_LOOPBACK: Final = "127.0.0.1"


def start_session(folder: Path, settings: SparkSettings | None = None) -> SparkSession:
    """Start a Spark that leaves nothing outside of a folder of this machine, where `spark.log` has all that it says.

    Java is found as Spark finds it: JAVA_HOME, then PATH. In a program that spark-submit has started, it is the session
    of that, with the settings that were given there. Raises AuditFailedError, and OSError if the folder cannot be
    written to.
    """
    settings = as_submitted(settings)
    folder.mkdir(parents=True, exist_ok=True)
    scratch = new_scratch(folder)
    ours = {**_settings(folder, scratch, settings), **_of_workers(folder, settings)}
    conf = SparkConf(loadDefaults=False).setAll(list(combined(ours, settings.conf).items()))
    _set_environment(settings)
    try:
        with deferred_interrupts():
            handler = signal.getsignal(signal.SIGINT)
            begin_log(folder / LOG)
            with (folder / LOG).open("ab") as log:
                gateway = launch_gateway(conf, popen_kwargs={"stdin": PIPE, "stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
            # Its server of counters would write a trace to stderr when the JVM is killed.
            context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
            # Spark has put its own in place, which calls the JVM while the call that it interrupts is under way.
            signal.signal(signal.SIGINT, handler)
        return SparkSession(context)
    except (PySparkException, Py4JError) as error:
        raise AuditFailedError(explained(error, folder / LOG, settings.master_url), folder) from error


def new_scratch(folder: Path) -> Path:
    """Make the folder for what this process's Spark needs only while it runs, and remove those of processes that ended:
    one that was killed left what was in it.
    """
    for left in (folder / "scratch").glob("*"):
        if not (left.name.isdecimal() and is_running(int(left.name))):
            shutil.rmtree(left, ignore_errors=True)
    scratch = folder / "scratch" / str(os.getpid())
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _temporary(scratch: Path) -> list[str]:
    """The option by which the JVM puts there what it would leave in the machine's folder for temporary files, if it can
    be said in the settings.
    """
    return [] if any(character.isspace() for character in str(scratch)) else [f"-Djava.io.tmpdir={scratch}"]


def as_submitted(settings: SparkSettings | None) -> SparkSettings:
    """The settings; in a program that spark-submit has started, with the master and others that were given there."""
    settings = SparkSettings() if settings is None else settings
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return settings
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    return replace(settings, master=given.get("spark.master", settings.master), conf={**settings.conf, **given})


def _settings(folder: Path, scratch: Path, settings: SparkSettings) -> dict[str, str]:
    """The settings of the driver, and those about how much is used."""
    archive = class_archive_options() if settings.class_archive else ""
    found = {
        "spark.app.name": "klamm audit",
        "spark.master": settings.master_url,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(
            [_QUICK_JVM, f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", *_temporary(scratch), archive]
        ).strip(),
        "spark.sql.shuffle.partitions": str(settings.tasks),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        **settings.of_cluster(),
    }
    if settings.is_on_loopback:
        found |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if settings.is_local:
        found["spark.local.dir"] = str(scratch)
    return found


def _of_workers(folder: Path, settings: SparkSettings) -> dict[str, str]:
    """The settings by which workers find our packages: before those of distributions and of their working directory."""
    safe = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
    if settings.is_local:
        return {**safe, "spark.executorEnv.PYTHONPATH": str(_APPLICATION)}
    if any(archive.endswith(f"#{FOLDER}") for archive in settings.conf.get("spark.archives", "").split(",")):
        archive = {}
    else:
        archive = {"spark.archives": f"{current_package(folder)}#{FOLDER}"}
    installed = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    return {
        **safe,
        **archive,
        # Behind the archive is what the driver's own Python processes have in its place.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([FOLDER, str(_APPLICATION), *installed]),
        "spark.executor.extraJavaOptions": _QUICK_JVM,
    }


def _set_environment(settings: SparkSettings) -> None:
    """Set what Spark takes only from the environment of this process."""
    # One interpreter for the processes of driver and workers. Here it is this one: another lacks our packages.
    python = sys.executable if settings.is_local else settings.conf.get("spark.pyspark.python", python_of_workers())
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    if settings.is_on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def folder_of_spark(output: Location, checkpoint: str) -> Path:
    """The folder of this machine for what Spark writes beside its checkpoint, `spark.log` among it."""
    for location in (str(output), checkpoint):
        if not is_remote(location):
            return Path(open_store(location).location)
    return Path(tempfile.gettempdir(), f"klamm-audit-{os.getuid()}")
