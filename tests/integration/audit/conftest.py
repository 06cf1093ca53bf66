"""Spark for the tests of the audit, with the Java that the launcher finds, also where none is on PATH."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from audit.spark.session import start_session
from deploy.local.java import find_java, spark_environment


@pytest.fixture(scope="module", autouse=True)
def java_for_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}
    os.environ.update(spark_environment(find_java(), tmp_path_factory.mktemp("java")))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, java_for_spark: None) -> Iterator[SparkSession]:
    """A session that serves all tests of a module."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
