"""What an operator is told of Kafka brokers that cannot be governed as they are, and of controllers that die."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.errors import ErrorCode
from cluster.model.exit_codes import ExitCode
from deploy.local.kafka_broker import STARTED
from deploy.local.kafka_clients import CREATE_TOPICS, connect
from tests.kafka.clusters import KafkaCluster
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

TAKES_OVER = {"klamm.takeover": "atomic", "zookeeper.session.timeout.ms": 6000}
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def health(cluster: KafkaCluster, controller: int) -> dict[str, list[dict[str, Any]]]:
    """The issues by kind, but for leaders that are not the preferred ones: brokers are restarted here."""
    command = ("cluster", "health", "--bootstrap", cluster.grpc[controller], "--timeout", "10", "-o", "json")
    answer = run_klamm(*command)
    assert answer.returncode in (ExitCode.OK, ExitCode.REFUSED, ExitCode.FINDINGS), answer.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    if answer.stdout:
        document = json.loads(answer.stdout)
        for issue in document["findings"]:
            if issue["kind"] != "imbalanced_leaders":
                found.setdefault(issue["kind"], []).append(issue)
    else:
        found["no_active_controller"] = []
    return found


def create(address: str, topic: str) -> tuple[int, str]:
    """At a Kafka listener; the code and the message of the answer."""

    async def ask() -> tuple[int, str]:
        connection = await connect(address)
        try:
            wanted = CreateTopicsRequest(
                topics=(CreatableTopic(name=topic, num_partitions=1, replication_factor=1),), timeout_ms=10_000
            )
            answer = await connection.call(wanted, CREATE_TOPICS, CreateTopicsResponse, timeout_s=30)
            return answer.topics[0].error_code, answer.topics[0].error_message or ""
        finally:
            connection.close()

    return asyncio.run(ask())


def restart(cluster: KafkaCluster, broker: int, settings: dict[str, Any]) -> None:
    name = f"kafka-{broker}"
    cluster.stop(name)
    starts = cluster.log(name).count(STARTED)
    cluster.start_broker(broker, settings)
    eventually(lambda: cluster.log(name).count(STARTED) > starts, f"broker {broker} serves again")


@pytest.mark.rule("D-111")
def test_brokers_that_do_not_understand_the_controller_are_named_until_it_is_set_right(
    tmp_path: Path, zookeeper: str
) -> None:
    cluster = KafkaCluster(tmp_path, zookeeper, "2.8.2")
    try:
        cluster.start_brokers(2)
        too_new = {**TAKES_OVER, "inter.broker.protocol.version": "3.9"}
        cluster.start_candidate(901, **too_new)
        eventually(lambda: "requests_not_understood" in health(cluster, 901), "both brokers are named")
        eventually(lambda: len(health(cluster, 901).get("requests_not_understood", ())) == 2, "both brokers are named")
        found = health(cluster, 901)["requests_not_understood"]
        assert [issue["broker"] for issue in found] == [1, 2]
        for issue in found:
            assert (
                "it is of Kafka 2.8 and does not understand version 7 of LEADER_AND_ISR, only 0 to 5" in issue["detail"]
            )
            assert "2.8 at most, not 3.9" in issue["detail"]
        cluster.stop("controller-901")
        cluster.start_candidate(902, **TAKES_OVER)
        eventually(lambda: health(cluster, 902).keys() == {"single_controller"}, "the brokers understand")
    finally:
        cluster.end()


@pytest.mark.rule("D-110", "D-112", "D-87")
def test_an_authorizer_that_comes_later_stops_changes_and_a_dead_controller_is_shown(
    tmp_path: Path, zookeeper: str
) -> None:
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        cluster.start_brokers(3)
        for id_ in (901, 902):
            cluster.start_candidate(id_, **TAKES_OVER)
            eventually(lambda id_=id_: health(cluster, id_) == {}, "klamm governs")
        at_klamm = cluster.controllers[901]
        eventually(lambda: create(at_klamm, "before") == (ErrorCode.NONE, ""), "the first topic")
        restart(cluster, 3, {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"})
        eventually(lambda: "authorizer_on_broker" in health(cluster, 901), "it is noticed")
        (issue,) = health(cluster, 901)["authorizer_on_broker"]
        assert issue["broker"] == 3
        for number in range(6):
            code, message = create(at_klamm, f"during-{number}")
            assert (code, message.partition(",")[0]) == (
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "broker 3 has an authorizer",
            )
        by_grpc = ("topics", "create", "from-here", "--partitions", "1", "--replication-factor", "3")
        assert run_klamm(*by_grpc, "--bootstrap", cluster.grpc[901]).returncode == 0
        restart(cluster, 3, {})
        eventually(lambda: health(cluster, 901) == {}, "nothing is wrong any more")
        assert create(at_klamm, "after") == (ErrorCode.NONE, "")

        # An authorizer that forbids the controller to govern.
        restart(cluster, 3, {"authorizer.class.name": AUTHORIZER})
        eventually(lambda: "requests_not_authorized" in health(cluster, 901), "the refusal is noticed")
        restart(cluster, 3, {})
        eventually(lambda: health(cluster, 901) == {}, "nothing is wrong any more, again")

        cluster.kill("controller-901")
        eventually(lambda: health(cluster, 902).keys() == {"single_controller"}, "a dead controller is an issue")
        described = run_klamm("cluster", "describe", "--bootstrap", cluster.grpc[902], "-o", "json")
        assert [(c["id"], c["is_active"]) for c in json.loads(described.stdout)["controllers"]] == [(902, True)]
        cluster.start_candidate(901, **TAKES_OVER)
        eventually(lambda: health(cluster, 902) == {}, "it is back")
    finally:
        cluster.end()
