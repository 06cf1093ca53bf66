"""A ZooKeeper server that serves its own metrics, with the jars of its Prometheus provider."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import ServerSettings, is_serving, prepare
from tests.processes.local_clusters import eventually

_COORDINATES: Final = "org.apache.zookeeper:zookeeper-prometheus-metrics:{}+org.eclipse.jetty:jetty-servlet:{}"
_JETTY: Final = {"3.9.4": "9.4.57.v20241219", "3.8.0": "9.4.43.v20210629"}
"""By version of ZooKeeper, whose module for Prometheus leaves it out."""
_EMBEDDED_VERSION: Final = "3.9.4"
_NEEDED: Final = ("jetty-", "simpleclient", "zookeeper-prometheus", "javax.servlet")


class NoProviderError(Exception):
    """The jars are neither in the cache nor can they be fetched; the message says why."""


def provider_jars(version: str) -> tuple[Path, ...]:
    """The jars for a version of ZooKeeper, from the cache of jgo or fetched by it. Raises NoProviderError."""
    import jgo

    try:
        environment = jgo.build(_COORDINATES.format(version, _JETTY[version]))
    except Exception as error:
        raise NoProviderError(f"the jars of ZooKeeper's Prometheus provider cannot be fetched: {error}") from error
    found = [Path(folder) / name for folder, _, names in os.walk(environment.path) for name in names]
    return tuple(sorted(jar for jar in found if jar.suffix == ".jar" and jar.name.startswith(_NEEDED)))


@contextmanager
def measured_zookeeper(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]", dict[str, Any]]]:
    """Its address, its process, and a scrape job for Prometheus. The test is skipped where the jars are missing."""
    [port] = choose_free_ports(1)
    try:
        jars = provider_jars(_EMBEDDED_VERSION)
    except NoProviderError as reason:
        # Here: tests/compose runs in a clone without the tools of the tests.
        import pytest

        pytest.skip(str(reason))
    settings = ServerSettings(metrics_port=port, jars=jars)
    command = prepare(None, folder, settings)
    with (folder / "console.log").open("wb") as log:
        server = subprocess.Popen(command.arguments, stdout=log, stderr=log)
        try:
            eventually(lambda: is_serving("127.0.0.1", command.port), "ZooKeeper serves")
            target = {"targets": [f"127.0.0.1:{port}"], "labels": {"node": "zookeeper-1"}}
            yield f"127.0.0.1:{command.port}", server, {"job_name": "zookeeper", "static_configs": [target]}
        finally:
            server.kill()
            server.wait()
