"""The configuration and command of a broker of Apache Kafka."""

from pathlib import Path

from deploy.local.kafka_broker import KafkaBroker, prepare


def broker(tmp_path: Path, **fields: object) -> KafkaBroker:
    known = {"zookeeper": "127.0.0.1:2181/kafka", "data": tmp_path / "data", "state_changes": tmp_path / "changes"}
    return KafkaBroker(**{"id": 7, "port": 9092, **known, **fields})  # type: ignore[arg-type]


def test_the_properties_are_those_of_kafka_and_settings_win(tmp_path: Path) -> None:
    settings = {"auto.create.topics.enable": False, "num.io.threads": 8, "sasl.jaas.config": 'a\\b "c"\nd'}
    prepare(broker(tmp_path, settings=settings, rack="eu-1"), tmp_path / "config", ["a.jar"])
    lines = (tmp_path / "config" / "kafka-7.properties").read_text().splitlines()
    assert {
        "broker.id=7",
        "listeners=PLAINTEXT://127.0.0.1:9092",
        "zookeeper.connect=127.0.0.1:2181/kafka",
        f"log.dirs={tmp_path / 'data'}",
        "broker.rack=eu-1",
        "auto.create.topics.enable=false",
        "num.io.threads=8",
        'sasl.jaas.config=a\\\\b "c"\\nd',
    } <= set(lines)
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def test_a_broker_without_a_rack_names_none(tmp_path: Path) -> None:
    assert "broker.rack" not in broker(tmp_path).properties()


def test_the_command_starts_kafka_from_these_jars_with_a_log_of_state_changes(tmp_path: Path) -> None:
    command = prepare(broker(tmp_path, heap_mb=256), tmp_path / "config", ["a.jar", "b.jar"])
    assert command[-4:] == ["-cp", "a.jar:b.jar", "kafka.Kafka", str(tmp_path / "config" / "kafka-7.properties")]
    assert "-Xmx256m" in command
    assert f"-Dklamm.state.change.log={tmp_path / 'changes' / 'state-change.log'}" in command
    assert "-Dklamm.state.change.level=TRACE" in command
    assert (tmp_path / "changes").is_dir()
