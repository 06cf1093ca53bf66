"""The Spark session of an audit: how it is configured, started, and what its errors say."""

import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from audit.interrupts import deferred_interrupts
from cluster.errors import ClusterError

_APPLICATION: Final = Path(__file__).resolve().parents[1]
_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
_QUICK_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The work is done in Python; the JVM only has to be there soon."""


class AuditFailedError(ClusterError):
    """Spark could not do it; `spark.log` in the output folder says more."""


def start_session(output: Path, parallelism: int = 2) -> SparkSession:
    """A local Spark with nothing outside of the output folder, where `spark.log` has all that it says.

    Java is found as Spark finds it: JAVA_HOME, then PATH. Raises AuditFailedError.
    """
    # Workers must be this interpreter: another one lacks our packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # And they must find ours before those of any distribution, or of the folder that the JVM was started in.
        "spark.executorEnv.PYTHONPATH": str(_APPLICATION),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{_QUICK_JVM} -Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        "spark.sql.shuffle.partitions": str(parallelism),
        "spark.sql.warehouse.dir": str(output / "warehouse"),
        "spark.local.dir": str(output / "scratch"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    conf = SparkConf().setMaster(f"local[{parallelism}]").setAppName("klamm audit").setAll(list(settings.items()))
    try:
        with deferred_interrupts():
            handler = signal.getsignal(signal.SIGINT)
            with (output / "spark.log").open("ab") as log:
                gateway = launch_gateway(conf, popen_kwargs={"stdin": PIPE, "stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
            # Spark has put its own in place, which calls the JVM while the call that it interrupts is under way.
            signal.signal(signal.SIGINT, handler)
        return SparkSession(context)
    except PySparkException as error:
        raise AuditFailedError(summary(error)) from error


def summary(error: Exception) -> str:
    """What went wrong, on one line: without the description of the query that follows."""
    return str(error).partition("\n")[0].removesuffix(" === Streaming Query ===")
