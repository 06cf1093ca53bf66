"""Spark's Java for the tests of the audit: found as the launcher finds it, also where none is on PATH."""

import os
from collections.abc import Iterator

import pytest

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
