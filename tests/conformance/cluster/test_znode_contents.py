"""Znode contents against literal JSON as written by Kafka in ZooKeeper mode (R1.6)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import (
    Broker,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    FeatureRange,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.control import StateLogHead
from cluster.znodes.admin_requests import (
    decode_log_dir_event,
    decode_partitions,
    decode_reassignments,
    encode_partitions,
)
from cluster.znodes.cluster_wide import (
    FinalizedFeatures,
    decode_cluster_id,
    decode_features,
    decode_producer_id_block,
    encode_cluster_id,
    encode_features,
)
from cluster.znodes.configs import decode_config, decode_config_change, encode_config
from cluster.znodes.controller import (
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from cluster.znodes.paths import (
    broker_path,
    delete_topic_path,
    partition_path,
    state_log_path,
    state_path,
    topic_config_path,
)
from cluster.znodes.registrations import (
    decode_broker,
    decode_controller_registration,
    encode_broker,
    encode_controller_registration,
)
from cluster.znodes.state_log import decode_heads, encode_heads
from cluster.znodes.topics import decode_state, decode_topic, encode_state, encode_topic

T0 = TopicPartition("t", 0)

BROKER_V5 = (
    b'{"version":5,"host":"host1","port":9092,"jmx_port":-1,"timestamp":"1729800000000",'
    b'"endpoints":["PLAINTEXT://host1:9092","REPLICATION://host1:9093"],'
    b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","REPLICATION":"PLAINTEXT"},'
    b'"rack":"rack-a","features":{"feature1":{"min_version":1,"max_version":3}}}'
)
BROKER = Broker(
    id=BrokerId(7),
    endpoints=(Endpoint("host1", 9092), Endpoint("host1", 9093, "REPLICATION", "PLAINTEXT")),
    rack="rack-a",
    features={"feature1": FeatureRange(1, 3)},
)


@pytest.mark.rule("D-80")
def test_a_registration_says_which_version_of_klamm_runs_the_broker() -> None:
    agent = replace(BROKER, klamm_version="0.3.0")
    written, without = json.loads(encode_broker(agent, 1)), json.loads(encode_broker(BROKER, 1))
    assert written == without | {"klamm": "0.3.0"}
    assert decode_broker(BrokerId(7), encode_broker(agent, 1)) == agent
    assert decode_broker(BrokerId(7), BROKER_V5).klamm_version == ""


def leadership(**changes: object) -> LeaderAndIsr:
    values = dict(leader=1, leader_epoch=3, isr=(1, 2), controller_epoch=7, partition_epoch=5) | changes
    return LeaderAndIsr(**values)  # type: ignore[arg-type]


@pytest.mark.rule("ZK-1", "ZK-4")
def test_controller_body_is_kafkas() -> None:
    body = encode_controller(ControllerId(1001), 1729800000000)
    assert json.loads(body) == {
        "version": 2,
        "brokerid": 1001,
        "timestamp": "1729800000000",
        "kraftControllerEpoch": -1,
    }
    assert decode_controller(body) == 1001


@pytest.mark.rule("ZK-2", "ZK-3")
@pytest.mark.parametrize(
    ("data", "controller"),
    [
        (b'{"version":1,"brokerid":3,"timestamp":"1"}', 3),
        (b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1,"address":"x"}', 3),
        (b"", None),
        (b"not json", None),
        (b'{"version":2}', None),
    ],
)
def test_controller_body_that_cannot_be_read_means_nobody(data: bytes, controller: int | None) -> None:
    assert decode_controller(data) == controller


def test_controller_epoch_is_plain_decimal_text() -> None:
    assert encode_controller_epoch(ControllerEpoch(7)) == b"7"
    assert decode_controller_epoch(b"0") == 0
    with pytest.raises(MalformedZnodeError, match="/controller_epoch.*not a decimal"):
        decode_controller_epoch(b"{}")


def test_an_ipv6_host_stands_in_brackets_in_endpoints_and_addresses_only() -> None:
    broker = Broker(BrokerId(7), (Endpoint("fe80::1", 9092),))
    body = json.loads(encode_broker(broker, 1))
    assert (body["host"], body["endpoints"]) == ("fe80::1", ["PLAINTEXT://[fe80::1]:9092"])
    decoded = decode_broker(BrokerId(7), json.dumps(body).encode())
    assert decoded == broker
    assert decoded.endpoints[0].address == "[fe80::1]:9092"


@pytest.mark.rule("ZK-10", "R1.6")
def test_broker_registration_round_trip_and_literal_json() -> None:
    assert decode_broker(BrokerId(7), BROKER_V5) == BROKER
    assert json.loads(encode_broker(BROKER, 1729800000000)) == json.loads(BROKER_V5)


@pytest.mark.rule("ZK-10", "R1.6")
@pytest.mark.parametrize(("version", "lacks"), [(2, 3), (4, 1), (5, 0)])
def test_an_older_protocol_registers_without_what_it_does_not_know_yet(version: int, lacks: int) -> None:
    body = json.loads(encode_broker(BROKER, 1729800000000, version))
    known = json.loads(BROKER_V5) | {"version": version}
    for name in ("features", "listener_security_protocol_map", "rack")[:lacks]:
        del known[name]
    assert body == known
    assert decode_broker(BROKER.id, json.dumps(body).encode()).endpoints[0] == BROKER.endpoints[0]


@pytest.mark.rule("ZK-10")
def test_registration_without_a_plaintext_endpoint_has_null_host_and_port_minus_one() -> None:
    broker = Broker(BrokerId(1), (Endpoint("h", 1, "SECURE", "SSL"),))
    body = json.loads(encode_broker(broker, 1))
    assert (body["host"], body["port"]) == (None, -1)
    assert "rack" not in body


@pytest.mark.rule("R1.6")
@pytest.mark.parametrize(
    ("data", "broker"),
    [
        (
            b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
            Broker(BrokerId(1), (Endpoint("h", 9092),)),
        ),
        (
            b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"rack":"ignored"}',
            Broker(BrokerId(1), (Endpoint("h", 1),)),
        ),
        (
            b'{"version":3,"host":"h","port":1,"endpoints":["SSL://h:1"],"rack":"r"}',
            Broker(BrokerId(1), (Endpoint("h", 1, "SSL", "SSL"),), "r"),
        ),
        (b'{"version":5,"endpoints":["SSL://h:1"]}', Broker(BrokerId(1), (Endpoint("h", 1, "SSL", "SSL"),))),
        (b'{"version":5,"endpoints":[]}', Broker(BrokerId(1), ())),
        (
            b'{"version":4,"host":null,"port":-1,"endpoints":["INTERNAL://[::1]:1"],"rack":"r",'
            b'"listener_security_protocol_map":{"INTERNAL":"SASL_SSL"}}',
            Broker(BrokerId(1), (Endpoint("::1", 1, "INTERNAL", "SASL_SSL"),), "r"),
        ),
    ],
)
def test_older_registrations_are_read_by_what_their_version_has(data: bytes, broker: Broker) -> None:
    assert decode_broker(BrokerId(1), data) == broker


@pytest.mark.rule("ZK-3", "ZK-11")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"version":0,"host":"h","port":1}', "version 0 is below 1"),
        (b'{"host":"h","port":1}', "version"),
        (b'{"version":1,"port":1}', "host or port is missing"),
        (b'{"version":1,"host":"h"}', "host or port is missing"),
        (b'{"version":1,"host":"h","port":null}', "host or port is missing"),
        (b'{"version":2,"host":"h","port":1}', "endpoints are missing"),
        (b'{"version":5,"host":"h","port":1,"endpoints":null}', "endpoints are missing"),
        (b'{"version":5,"endpoints":["A://h:1","A://h:2"]}', "same listener"),
        (b'{"version":5,"endpoints":["h:1"]}', "LISTENER://host:port"),
        (b'{"version":5,"endpoints":["A://h:x"]}', "LISTENER://host:port"),
        (b"\xff", "malformed"),
        (b"", "malformed"),
    ],
)
def test_invalid_registration_names_path_bytes_and_reason(data: bytes, why: str) -> None:
    with pytest.raises(MalformedZnodeError, match=why) as caught:
        decode_broker(BrokerId(3), data)
    assert caught.value.path == "/brokers/ids/3"
    assert caught.value.data == data


TOPIC_V3 = (
    b'{"version":3,"topic_id":"Wx8MUo0-SnefEGwuS32aMQ","partitions":{"0":[7,8,9,2,5],"1":[5,7,2]},'
    b'"adding_replicas":{"0":[8,9]},"removing_replicas":{"0":[2,5]}}'
)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(i) for i in ids)


@pytest.mark.rule("ZK-20")
def test_topic_znode_round_trip_and_literal_json() -> None:
    topic = decode_topic("t", TOPIC_V3)
    assert topic == TopicAssignment(
        {
            0: ReplicaAssignment(brokers(7, 8, 9, 2, 5), brokers(8, 9), brokers(2, 5)),
            1: ReplicaAssignment(brokers(5, 7, 2)),
        },
        TopicId("Wx8MUo0-SnefEGwuS32aMQ"),
    )
    assert json.loads(encode_topic(topic)) == json.loads(TOPIC_V3)


@pytest.mark.rule("ZK-20")
def test_topic_writer_always_includes_both_maps_and_omits_an_absent_id() -> None:
    body = json.loads(encode_topic(TopicAssignment({0: ReplicaAssignment(brokers(1))})))
    assert body == {"version": 3, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}


@pytest.mark.rule("ZK-3", "ZK-21")
@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (b'{"version":1,"partitions":{"0":[1]}}', TopicAssignment({0: ReplicaAssignment(brokers(1))})),
        (b'{"version":9,"topic_id":null}', TopicAssignment({})),
        (b"{}", TopicAssignment({})),
    ],
)
def test_topic_reader_goes_by_fields_not_by_version(data: bytes, topic: TopicAssignment) -> None:
    assert decode_topic("t", data) == topic


@pytest.mark.parametrize("data", [b"", b"[]", b'{"partitions":{"x":[1]}}', b'{"partitions":{"0":["a"]}}'])
def test_malformed_topic_znode_names_its_path(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match="/brokers/topics/t"):
        decode_topic("t", data)


@pytest.mark.rule("ZK-25", "ZK-26", "ZK-27")
def test_state_node_is_kafkas_json_and_leaves_the_partition_epoch_out() -> None:
    body = b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":7,"isr":[1,2]}'
    assert json.loads(encode_state(leadership())) == json.loads(body)
    assert decode_state(T0, body, PartitionEpoch(5)) == leadership()


@pytest.mark.rule("ZK-25")
def test_recovery_state_is_written_only_while_recovering() -> None:
    body = json.loads(encode_state(leadership(isr=(1,), leader_recovery_state=RECOVERING)))
    assert body["leader_recovery_state"] == 1
    data = json.dumps(body).encode()
    decoded = decode_state(T0, data, PartitionEpoch(5))
    assert decoded is not None
    assert decoded.leader_recovery_state == RECOVERING


@pytest.mark.rule("ZK-28")
def test_state_that_is_not_json_is_no_state_but_a_missing_field_is_an_error() -> None:
    assert decode_state(T0, b"", PartitionEpoch(0)) is None
    assert decode_state(T0, b"garbage", PartitionEpoch(0)) is None
    with pytest.raises(MalformedZnodeError, match="/brokers/topics/t/partitions/0/state.*isr"):
        decode_state(T0, b'{"leader":1,"leader_epoch":0,"controller_epoch":1}', PartitionEpoch(0))


def test_encoder_refuses_an_empty_isr() -> None:
    with pytest.raises(AssertionError, match="never empty"):
        encode_state(leadership(isr=()))


def test_config_node() -> None:
    body = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    assert decode_config("/config/topics/t", body) == {"unclean.leader.election.enable": "true"}
    assert json.loads(encode_config({"unclean.leader.election.enable": "true"})) == json.loads(body)
    assert decode_config("/config/topics/t", b"") == {}


def test_cluster_id_has_a_version_that_is_a_string() -> None:
    assert json.loads(encode_cluster_id("mXyzAbCdQ0aVbWc1dEfGhg")) == {
        "version": "1",
        "id": "mXyzAbCdQ0aVbWc1dEfGhg",
    }
    assert decode_cluster_id(b'{"version":"1","id":"abc"}') == "abc"


def test_partition_lists_of_notifications_and_elections() -> None:
    body = b'{"version":1,"partitions":[{"topic":"topic-a","partition":0},{"topic":"topic-b","partition":3}]}'
    partitions = [TopicPartition("topic-a", 0), TopicPartition("topic-b", 3)]
    assert decode_partitions("/x", body) == partitions
    assert json.loads(encode_partitions(partitions)) == json.loads(body)


def test_feature_node_of_both_versions() -> None:
    body = b'{"version":2,"status":1,"features":{"feature1":{"max_version_level":2}}}'
    assert decode_features(body) == FinalizedFeatures(True, {"feature1": 2})
    assert json.loads(encode_features(FinalizedFeatures(True, {"feature1": 2}))) == json.loads(body)
    older = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert decode_features(older) == FinalizedFeatures(False, {"f": 2}, version=1)
    assert json.loads(encode_features(FinalizedFeatures(False, {"f": 2}, version=1))) == json.loads(older)
    assert decode_features(b'{"version":2,"status":1,"features":{}}') == FinalizedFeatures(True)


@pytest.mark.rule("ZK-8")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"version":2,"status":7,"features":{}}', "status 7"),
        (b'{"version":3,"status":1,"features":{}}', "version 3"),
        (b'{"version":0,"status":1,"features":{}}', "version 0"),
        (b'{"status":1,"features":{}}', "version"),
        (b'{"version":2,"features":{}}', "status"),
        (b'{"version":2,"status":1}', "features"),
        (b'{"version":1,"status":0}', "features"),
        (b'{"version":2,"status":1,"features":null}', "features"),
        (b'{"version":2,"status":1,"features":{"f":{}}}', "max_version_level"),
        (b'{"version":2,"status":1,"features":{"f":{"max_version_level":0}}}', "max_version_level"),
        (b'{"version":1,"status":1,"features":{"f":{"min_version_level":1}}}', "max_version_level"),
    ],
)
def test_a_feature_node_that_lacks_what_it_must_have_is_malformed(data: bytes, why: str) -> None:
    with pytest.raises(MalformedZnodeError, match=why) as caught:
        decode_features(data)
    assert (caught.value.path, caught.value.data) == ("/feature", data)


REQUIRED = {
    "reassignment": (decode_reassignments, b'{"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'),
    "partitions": (lambda data: decode_partitions("/x", data), b'{"partitions":[{"topic":"t","partition":0}]}'),
    "log directory": (lambda data: decode_log_dir_event("/x", data), b'{"broker":1}'),
    "producer ids": (decode_producer_id_block, b'{"broker":1,"block_start":"0","block_end":"9"}'),
    "cluster id": (decode_cluster_id, b'{"id":"x"}'),
    "state": (
        lambda data: decode_state(T0, data, PartitionEpoch(0)),
        b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
    ),
    "config change, version 1": (
        lambda data: decode_config_change("/x", data),
        b'{"version":1,"entity_type":"topics","entity_name":"t"}',
    ),
    "config change, version 2": (
        lambda data: decode_config_change("/x", data),
        b'{"version":2,"entity_path":"topics/t"}',
    ),
    "broker, version 1": (lambda data: decode_broker(BrokerId(1), data), b'{"version":1,"host":"h","port":1}'),
    "broker": (lambda data: decode_broker(BrokerId(1), data), b'{"version":5,"endpoints":["P://h:1"]}'),
    "controller": (
        lambda data: decode_controller_registration(ControllerId(1), data),
        b'{"version":1,"host":"h","port":1}',
    ),
    "features, version 1": (
        decode_features,
        b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}',
    ),
    "features": (decode_features, b'{"version":2,"status":1,"features":{"f":{"max_version_level":2}}}'),
}


def without_each_field(body: Any) -> Iterator[Any]:
    """The document with one field less, at any depth."""
    match body:
        case dict():
            for name, value in body.items():
                yield {other: kept for other, kept in body.items() if other != name}
                # A map of features may have any names, or none.
                yield from (body | {name: shorter} for shorter in without_each_field(value) if shorter != {})
        case [first]:
            yield from ([shorter] for shorter in without_each_field(first))


@pytest.mark.rule("ZK-8")
@pytest.mark.parametrize("node", REQUIRED)
def test_no_field_that_a_reader_needs_may_be_missing(node: str) -> None:
    decode, data = REQUIRED[node]
    decode(data)
    for body in without_each_field(json.loads(data)):
        with pytest.raises(MalformedZnodeError):
            decode(json.dumps(body).encode())


@pytest.mark.rule("ZK-8", "ZK-21")
def test_fields_that_have_a_meaning_when_they_are_missing_may_be() -> None:
    assert decode_config("/config/topics/t", b'{"version":1}') == {}
    assert decode_reassignments(b'{"partitions":[]}') == {}
    assert decode_topic("t", b'{"partitions":{"0":[1]}}').partitions[0] == ReplicaAssignment(brokers(1))


@pytest.mark.parametrize("lowest", ["", '"min_version_level":0,', '"min_version_level":3,'])
def test_a_finalized_range_of_the_older_feature_node_must_be_one(lowest: str) -> None:
    body = f'{{"version":1,"status":1,"features":{{"f":{{{lowest}"max_version_level":2}}}}}}'.encode()
    with pytest.raises(MalformedZnodeError, match="lowest level"):
        decode_features(body)
    assert decode_features(body.replace(b'"version":1', b'"version":2')).levels == {"f": 2}


def test_controller_registration_finds_the_process() -> None:
    endpoints = (Endpoint("127.0.0.1", 19092), Endpoint("127.0.0.1", 19093, "CONTROL"))
    body = encode_controller_registration(ControllerId(1001), endpoints, 5)
    assert json.loads(body) == {
        "version": 1,
        "host": "127.0.0.1",
        "port": 19092,
        "endpoints": ["PLAINTEXT://127.0.0.1:19092", "CONTROL://127.0.0.1:19093"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "CONTROL": "PLAINTEXT"},
        "timestamp": "5",
    }
    assert decode_controller_registration(ControllerId(1001), body) == endpoints
    # As written by klamm 0.2.
    old = b'{"version":1,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"timestamp":"5"}'
    assert decode_controller_registration(ControllerId(1001), old) == (Endpoint("h", 1),)


def test_every_path_is_kafkas() -> None:
    assert state_path(T0) == "/brokers/topics/t/partitions/0/state"
    assert partition_path(T0) == "/brokers/topics/t/partitions/0"
    assert topic_config_path("t") == "/config/topics/t"
    assert delete_topic_path("t") == "/admin/delete_topics/t"
    assert broker_path(BrokerId(1)) == "/brokers/ids/1"
    assert LeaderEpoch(0) == 0


HEADS = (
    StateLogHead("broker-1", "1700000000001.8", 57, "ab" * 32, "0f1f4c0e-8f0a-4a4e-9d0e-5a0a3a5f7c11"),
    StateLogHead("broker-1", "1700000000000.7", 41, "cd" * 32),
)


@pytest.mark.rule("D-51")
def test_heads_of_state_change_logs() -> None:
    assert state_log_path("broker-1") == "/klamm/state_log/broker-1"
    data = encode_heads(HEADS)
    assert json.loads(data) == {
        "version": 1,
        "heads": [
            {"incarnation": "1700000000001.8", "seq": 57, "digest": "ab" * 32, "boot_id": HEADS[0].boot_id},
            {"incarnation": "1700000000000.7", "seq": 41, "digest": "cd" * 32},
        ],
    }
    assert decode_heads("broker-1", data) == HEADS


@pytest.mark.rule("D-51")
@pytest.mark.parametrize(
    ("field", "value"),
    [("incarnation", "x"), ("seq", -1), ("seq", 1 << 63), ("digest", "ab"), ("boot_id", "x" * 65), ("seq", "1")],
)
def test_a_head_beyond_its_bounds_is_malformed(field: str, value: object) -> None:
    head = {"incarnation": "1700000000001.8", "seq": 57, "digest": "ab" * 32} | {field: value}
    with pytest.raises(MalformedZnodeError, match="/klamm/state_log/broker-1"):
        decode_heads("broker-1", json.dumps({"version": 1, "heads": [head]}).encode())
