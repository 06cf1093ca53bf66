"""Metrics of a process as such, and what the catalogue says of every metric."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.metrics.catalogue import STATE, catalogue, meanings
from cluster.metrics.process import DiskSpaceMonitor, EventLoopMonitor, expose_process
from cluster.metrics.registry import Metrics
from tests.timeouts import TIMEOUT_S

DOCS = Path(__file__).resolve().parents[4] / "docs"


def samples(metrics: Metrics) -> dict[str, float]:
    return {sample.name: sample.value for family in metrics.collect() for sample in family.samples}


async def until(condition: Any) -> None:
    end = asyncio.get_running_loop().time() + TIMEOUT_S
    while not condition():
        assert asyncio.get_running_loop().time() < end, "in time"
        await asyncio.sleep(0.01)


def test_disk_io_and_threads_are_those_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n")
    (tmp_path / "task" / "7").mkdir(parents=True)
    metrics = Metrics()
    expose_process(metrics, tmp_path)
    assert samples(metrics) == {
        "kafka_server_kafkaserver_linux_disk_read_bytes": 4096,
        "kafka_server_kafkaserver_linux_disk_write_bytes": 8192,
        "klamm_process_process_threads": 1,
    }


def test_a_system_without_proc_has_none_of_them(tmp_path: Path) -> None:
    metrics = Metrics()
    expose_process(metrics, tmp_path)
    assert samples(metrics) == {}


async def test_an_event_loop_that_is_blocked_shows_it_during_and_afterwards() -> None:
    metrics = Metrics()
    monitor = asyncio.ensure_future(EventLoopMonitor(metrics).run())
    lag = metrics.timer("klamm.process", "EventLoop", "LagMs")
    await until(lambda: lag.count == 1)
    before = samples(metrics)["klamm_process_eventloop_timesincelastturnms"]
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        sum(range(1000))
    assert samples(metrics)["klamm_process_eventloop_timesincelastturnms"] >= before + 1500
    await until(lambda: lag.count == 2)
    assert lag.sum >= 400
    assert samples(metrics)["kafka_network_socketserver_networkprocessoravgidlepercent"] < 1
    assert samples(metrics)["kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total"] > 0
    monitor.cancel()


async def test_free_space_is_that_of_the_file_system_also_before_the_directory_exists(tmp_path: Path) -> None:
    metrics, directory = Metrics(), str(tmp_path / "not" / "made")
    monitor = asyncio.ensure_future(DiskSpaceMonitor(metrics, [directory]).run())
    total = metrics.gauge("klamm.process", "Disk", "TotalBytes", directory=directory)
    await until(lambda: total.value)
    assert 0 < metrics.gauge("klamm.process", "Disk", "FreeBytes", directory=directory).value <= total.value
    monitor.cancel()


def test_the_help_of_a_metric_is_its_meaning() -> None:
    metrics = Metrics()
    metrics.gauge("kafka.controller", "KafkaController", "OfflinePartitionsCount")
    [family] = metrics.collect()
    assert family.documentation == "Partitions without a leader; 0 on a standby. Unit: partitions."


def test_every_metric_has_a_meaning_and_every_link_of_the_catalogue_a_target() -> None:
    assert len(meanings()) == len({(metric.bean, metric.name) for metric in catalogue()}) > 100
    assert [metric.name for metric in catalogue() if not metric.meaning.endswith(".")] == []
    assert [metric.name for metric in catalogue() if metric.type == STATE and metric.unit] == []
    for metric in catalogue():
        for file, anchor in re.findall(r"\]\(([a-z]+\.md)#([a-z-]+)\)", metric.action):
            headings = re.findall(r"^#+ (.+)$", (DOCS / file).read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z -]", "", h.lower()).replace(" ", "-") for h in headings}, metric.name


@pytest.mark.parametrize("metric", [m for m in catalogue() if "topic" in str(m.labels)], ids=lambda m: m.name)
def test_no_label_but_topic_and_partition_grows_with_the_topics(metric: Any) -> None:
    with_partition = [labels for labels in metric.labels if "partition" in labels]
    assert metric.per_partition == bool(with_partition)
