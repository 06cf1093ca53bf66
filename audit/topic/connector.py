"""The jars of Spark's connector to Kafka, which pyspark does not bring along."""

import os
import re
from pathlib import Path
from typing import Final

import pyspark
from msgspec.structs import replace

from audit.spark.settings import SparkSettings
from cluster.model.errors import StartupError

_NAME: Final = "spark-sql-kafka-0-10"
_ENDPOINT: Final = f"org.apache.spark:{_NAME}_2.13:{{version}}"
_ARTIFACT: Final = re.compile(r"(?P<name>.+?)-\d[^/]*\.jar")
_OTHERWISE: Final = "or pass them by --conf spark.jars=… or --conf spark.jars.packages=…"


def with_connector(settings: SparkSettings, version: str) -> SparkSettings:
    """The settings with the connector's jars, unless they name it themselves or spark-submit has started Spark.

    Raises StartupError if the jars cannot be had.
    """
    conf = settings.conf
    named = any(_NAME in conf.get(name, "") for name in ("spark.jars", "spark.jars.packages"))
    if named or "PYSPARK_GATEWAY_PORT" in os.environ:
        return settings
    jars = [*filter(None, [conf.get("spark.jars")]), *map(str, connector_jars(version))]
    return replace(settings, conf={**conf, "spark.jars": ",".join(jars)})


def connector_jars(version: str) -> list[Path]:
    """The connector's jars and those that it needs beside Spark's own, from jgo's cache or the Maven repository.

    Raises StartupError.
    """
    try:
        import jgo  # noqa: PLC0415
    except ImportError:
        raise StartupError(
            f"the jars of Spark's connector to Kafka need the extra 'audit-kafka': install klamm with it, {_OTHERWISE}"
        ) from None
    endpoint = _ENDPOINT.format(version=version)
    try:
        folder = jgo.build(endpoint).path
    except Exception as error:  # jgo lets errors of its HTTP client, its parsers and the file system through.
        why = str(error).strip().partition("\n")[0]
        raise StartupError(
            f"{endpoint} could not be had ({why}): set --kafka-connector to a version that there is, {_OTHERWISE}"
        ) from error
    of_spark = {_artifact(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return sorted(path for path in Path(folder).rglob("*.jar") if _artifact(path) not in of_spark)


def _artifact(path: Path) -> str:
    found = _ARTIFACT.fullmatch(path.name)
    return path.name if found is None else found["name"]
