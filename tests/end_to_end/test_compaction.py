"""Brokers that compact are killed again and again while a producer writes: the latest value of each key is there."""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = pytest.mark.real

SETTINGS = {
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.io.max.bytes.per.second": 400_000,
    "log.segment.delete.delay.ms": 100,
    "zookeeper.session.timeout.ms": 4000,
}
CONFIGS = ("cleanup.policy=compact", "segment.bytes=20000", "min.cleanable.dirty.ratio=0.01", "min.insync.replicas=1")
KEYS = 50
ROUNDS = 4
PATH = "states-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("compaction") / "c"
    with serving_cluster(folder, controllers=1, brokers=2, settings=SETTINGS) as running:
        configs = itertools.chain.from_iterable(("--config", config) for config in CONFIGS)
        klamm(running, "topics", "create", "states", "--partitions", "1", "--replication-factor", "2", *configs)
        yield running


def produce(cluster: LocalCluster, number: int, expected: dict[str, str]) -> None:
    """A thousand records of all keys, of which the last ones are what must be there."""
    records = [(f"key{each % KEYS}", f"round {number} value {each} " + "x" * 40) for each in range(1000)]
    lines = "".join(f"{key}:{value}\n" for key, value in records)
    klamm(cluster, "produce", "states", "--key-separator", ":", "--batch-size", "4000", stdin=lines)
    expected |= dict(records)


def consumed(cluster: LocalCluster) -> list[tuple[int, str, str]]:
    """(offset, key, value) of all records."""
    shown = klamm(cluster, "consume", "states", "--from-beginning", "--until-end", "-o", "json").stdout
    return [(r["offset"], r["key"], r["value"]) for r in map(json.loads, shown.splitlines())]


def is_compacting(replica: Path) -> bool:
    return any(path.name.endswith((".cleaned", ".swap")) for path in replica.iterdir())


def all_in_sync(cluster: LocalCluster) -> bool:
    return sorted(partitions(cluster, "states")[0]["isr"]) == [1, 2]


@pytest.mark.rule("R10.21", "R10.28", "R10.29", "R10.32")
def test_the_latest_value_of_each_key_is_there_whenever_brokers_are_killed_while_they_compact(
    cluster: LocalCluster,
) -> None:
    expected: dict[str, str] = {}
    kills_while_compacting = 0
    replicas = {broker: log_directory(cluster, broker) / PATH for broker in (1, 2)}
    for number in range(ROUNDS):
        victim = 1 + number % 2
        produce(cluster, number, expected)
        deadline = time.monotonic() + 10
        while not is_compacting(replicas[victim]) and time.monotonic() < deadline:
            time.sleep(0.002)
        cluster.kill(f"broker-{victim}")
        kills_while_compacting += is_compacting(replicas[victim])
        found = consumed_when_led(cluster, victim)
        assert {key: value for _, key, value in found} == expected
        cluster.start(f"broker-{victim}")
        eventually(lambda: all_in_sync(cluster), "both replicas are in sync")
    assert kills_while_compacting > 0
    eventually(lambda: len(consumed(cluster)) < 2 * 1000, "most records are gone")
    for broker in (1, 2):
        # Each replica by itself: the other one is away.
        other = 3 - broker
        eventually(lambda: all_in_sync(cluster), "both replicas are in sync")
        cluster.stop(f"broker-{other}")
        found = consumed_when_led(cluster, other)
        assert {key: value for _, key, value in found} == expected
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == ROUNDS * 1000 - 1
        cluster.start(f"broker-{other}")
    eventually(lambda: all_in_sync(cluster), "both replicas are in sync")
    kinds = {found["kind"] for found in as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]}
    assert not kinds & {"damaged_replica", "uncleanable_partition", "dead_log_cleaner", "offline_replica"}
    for broker in (1, 2):
        checkpoint = (log_directory(cluster, broker) / "cleaner-offset-checkpoint").read_text()
        assert checkpoint.startswith("0\n1\nstates 0 ")


def consumed_when_led(cluster: LocalCluster, away: int) -> list[tuple[int, str, str]]:
    """All records, once the other broker leads, and the session of the one that is away has ended."""
    eventually(lambda: away not in [b["id"] for b in as_json(cluster, "cluster", "describe")["brokers"]], "it is gone")
    eventually(lambda: partitions(cluster, "states")[0]["leader"] == 3 - away, "the other replica leads")
    return consumed(cluster)


@pytest.mark.rule("R7.16")
def test_a_record_without_a_key_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    refused = klamm(cluster, "produce", "states", stdin="no key\n", code=1)
    assert "INVALID_RECORD" in refused.stderr
    assert "it has no key, which the topic needs: its cleanup.policy includes compact" in refused.stderr
