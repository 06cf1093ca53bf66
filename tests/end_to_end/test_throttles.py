"""Throttles and quotas between real brokers and clients: what is limited takes its time, and nothing is left set."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = pytest.mark.real

RATE, SLOW_RATE = 4_000_000, 10_000
RECORDS, RECORD_BYTES = 2_000, 1_000
KEYS = ("leader.replication.throttled", "follower.replication.throttled")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"auto.leader.rebalance.enable": False}
    folder = tmp_path_factory.mktemp("cluster") / "c"
    with serving_cluster(folder, controllers=1, brokers=3, settings=settings) as running:
        yield running


def throttles(cluster: LocalCluster, topic: str) -> dict[str, dict[str, str]]:
    """What is set of throttles, by topic and broker."""

    def of(configs: list[dict[str, Any]]) -> dict[str, str]:
        return {c["name"]: c["value"] for c in configs if c["name"].startswith(KEYS)}

    found = {topic: of(as_json(cluster, "topics", "describe", topic, "--configs")["topics"][0]["settings"])}
    for broker in (1, 2, 3):
        described = as_json(cluster, "brokers", "describe", str(broker), "--configs")["brokers"][0]
        found[str(broker)] = of(described["configs"])
    return {name: configs for name, configs in found.items() if configs}


def throttled_by(rate: int) -> dict[str, dict[str, str]]:
    """What is set while `moved` moves at this rate."""
    return {
        "moved": {f"{KEYS[0]}.replicas": "0:1,1:1", f"{KEYS[1]}.replicas": "0:3,1:2"},
        **{str(broker): {f"{key}.rate": str(rate) for key in KEYS} for broker in (1, 2, 3)},
    }


def forgotten(cluster: LocalCluster) -> list[dict[str, Any]]:
    findings = as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]
    return [f for f in findings if f["kind"] == "forgotten_throttle"]


def test_a_throttled_move_takes_its_time_and_what_limits_it_is_removed(cluster: LocalCluster, tmp_path: Path) -> None:
    klamm(cluster, "topics", "create", "moved", "--replica-assignment", "1,1")
    klamm(cluster, "produce", "moved", stdin=f"{'x' * RECORD_BYTES}\n" * RECORDS)
    size = sum(log.stat().st_size for log in log_directory(cluster, 1).glob("moved-*/*.log"))
    assert size >= RECORDS * RECORD_BYTES
    moves = tmp_path / "moves.json"
    moves.write_text(
        json.dumps({"partitions": [{"topic": "moved", "partition": p, "replicas": [3 - p]} for p in (0, 1)]})
    )

    # So slow that it does not end before it has been looked at, however busy the machine is.
    klamm(cluster, "reassign", "execute", str(moves), "--throttle", str(SLOW_RATE))
    assert throttles(cluster, "moved") == throttled_by(SLOW_RATE)
    # While something moves, nothing is forgotten, and verify leaves it as it is. Without the throttle it would have
    # ended: the leader sends both partitions at SLOW_RATE together.
    assert forgotten(cluster) == []
    klamm(cluster, "reassign", "verify", str(moves), code=3)
    klamm(cluster, "reassign", "execute", str(moves), "--additional", "--throttle", str(RATE))
    assert throttles(cluster, "moved") == throttled_by(RATE)
    eventually(
        lambda: [p["replicas"] for p in partitions(cluster, "moved")] == [[3], [2]], "both partitions have moved"
    )

    assert {f["broker"] for f in forgotten(cluster)} == {1, 2, 3, -1}
    assert {f["topic"] for f in forgotten(cluster)} == {"moved", ""}
    said = klamm(cluster, "reassign", "verify", str(moves)).stderr
    assert "throttles removed: topic moved, broker 1, broker 2, broker 3" in said
    assert throttles(cluster, "moved") == {}
    eventually(lambda: forgotten(cluster) == [], "the brokers know of it")
    read = klamm(cluster, "consume", "moved", "--from-beginning", "--until-end").stdout
    assert read == f"{'x' * RECORD_BYTES}\n" * RECORDS


def test_a_consumer_over_its_quota_takes_its_time_and_misses_nothing(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    klamm(cluster, "topics", "create", "read")
    klamm(cluster, "produce", "read", stdin=f"{'x' * RECORD_BYTES}\n" * RECORDS)
    set_ = klamm(cluster, "clients", "alter", "reports", "--config", "consumer_byte_rate=100000")
    assert "quotas of client reports changed" in set_.stderr
    refused = klamm(cluster, "clients", "alter", "reports", "--config", "request_rate=1", code=1)
    assert "unknown client config" in refused.stderr
    assert as_json(cluster, "clients", "describe", "reports")["configs"][0]["value"] == "100000"

    def seconds_to_read() -> float:
        begun = time.monotonic()
        read = klamm(cluster, "consume", "read", "--from-beginning", "--until-end").stdout
        assert read == f"{'x' * RECORD_BYTES}\n" * RECORDS
        return time.monotonic() - begun

    # 2 MB: the window of ten seconds has room for the first, the second takes as long as the first is in it.
    monkeypatch.setenv("KLAMM_CLIENT_ID", "reports")
    eventually(lambda: seconds_to_read() > 9, "the brokers know the quota")
    without = ("clients", "alter", "reports", "--delete-config", "consumer_byte_rate")
    said = [klamm(cluster, *without).stderr for _ in range(2)]
    now = "client reports has no quota now\n"
    assert said == [
        f"quotas of client reports changed\n{now}",
        f"nothing changed: client reports had no consumer_byte_rate\n{now}",
    ]
    assert as_json(cluster, "clients", "describe", "reports")["configs"] == []
