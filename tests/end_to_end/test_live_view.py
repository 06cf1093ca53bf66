"""`klamm top` on a terminal, and what doctor and bundle make of a cluster that works and of one that is half dead."""

import json
import os
import pty
import select
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from tests.processes.commands import LAUNCHER, as_json, klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=1, brokers=2) as running:
        klamm(running, "topics", "create", "orders", "--replication-factor", "2")
        yield running


def test_the_live_view_is_drawn_anew_and_ends_with_ctrl_c(cluster: LocalCluster) -> None:
    ours, of_command = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [*LAUNCHER, "top", "--interval", "0.5", "--data", str(cluster.folder)]
    with subprocess.Popen(command, stdin=of_command, stdout=of_command, env=environment) as process:
        os.close(of_command)
        shown, deadline = "", time.monotonic() + TIMEOUT_S
        while shown.count("controller 1001, epoch 1") < 2:
            assert time.monotonic() < deadline, shown
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 65_536).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    os.close(ours)
    assert "event queue: 0 events" in shown


def test_the_busiest_partition_and_the_event_queue_are_shown_to_programs(cluster: LocalCluster) -> None:
    with subprocess.Popen(
        [*LAUNCHER, "produce", "orders", "--data", str(cluster.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as producer:
        assert producer.stdin is not None
        pipe, is_seen = producer.stdin, Event()

        def write() -> None:
            """Write all the time: a load is what came between two looks."""
            while not is_seen.wait(0.05):
                pipe.write(b"a record\n" * 10)
                pipe.flush()

        def is_busy() -> bool:
            load = as_json(cluster, "top", "--once", "--interval", "0.5")
            return any(b["topic"] == "orders" and b["records_per_s"] > 0 for b in load["busiest"])

        with ThreadPoolExecutor(1) as beside:
            writing = beside.submit(write)
            try:
                eventually(is_busy, "records are seen")
            finally:
                is_seen.set()
            writing.result(TIMEOUT_S)
        pipe.close()
    load = as_json(cluster, "top", "--once")
    assert load["event_queue"].keys() == {"size", "median", "p99"}
    assert (load["controller_id"], load["counts"]["unavailable"]) == (1001, 0)


def test_doctor_and_bundle_work_while_a_broker_is_dead(cluster: LocalCluster, tmp_path: Path) -> None:
    healthy = {c["check"] for c in as_json(cluster, "doctor", codes=(0, 3))["checks"] if c["level"] == "problem"}
    assert not healthy - {"disk", "open files"}, "a machine may be short of those"
    cluster.kill(f"{BROKER}-2")
    eventually(lambda: as_json(cluster, "doctor", codes=(0, 3))["problems"] >= 2, "the dead broker is found")
    found = as_json(cluster, "doctor", codes=(3,))["checks"]
    assert {"process", "cluster"} <= {c["check"] for c in found if c["level"] == "problem"}
    written = json.loads(klamm(cluster, "bundle", "--output", str(tmp_path), "-o", "json").stdout)
    with tarfile.open(written["file"]) as archive:
        (health,) = [m for m in archive.getmembers() if m.name.endswith("/health.json")]
        content = archive.extractfile(health)
        assert content is not None
        assert b'"healthy": false' in content.read()
