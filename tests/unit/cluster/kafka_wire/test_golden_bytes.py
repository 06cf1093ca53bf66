"""The same bytes as Kafka's own classes, for every version of every message, both ways."""

from itertools import chain

import pytest
from msgspec.structs import asdict

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.schema import load_schema, schema_names
from tests.kafka.golden import ABSENT, answers_of_kafka, bytes_by_kafka, examples, recorded
from tests.kafka.messages import EVERY_VERSION, empty_example, full_example

RECORDED = recorded()


@pytest.mark.parametrize("name", schema_names())
def test_every_version_is_encoded_and_decoded_as_by_kafka(name: str) -> None:
    for of, version in EVERY_VERSION:
        if of == name:
            made = full_example(name, version), empty_example(name, version)
            for message, data in zip(made, RECORDED[name, version], strict=True):
                assert encode(message, version) == data, f"{name} v{version}"
                assert decode(type(message), version, data) == message, f"{name} v{version}"


def test_the_full_examples_leave_nothing_at_its_default() -> None:
    for name in schema_names():
        latest = load_schema(name).valid_versions.last
        fields = asdict(full_example(name, latest))
        present = {f for f in fields.items() if f[1] == getattr(type(full_example(name, latest))(), f[0])}
        lacking = [field.name for field in load_schema(name).fields if latest not in field.versions]
        assert len(present) == len(lacking), f"{name}: {present}"


def test_all_versions_are_recorded() -> None:
    assert [*RECORDED] == EVERY_VERSION


@pytest.mark.deep
@pytest.mark.real
def test_the_recorded_bytes_are_kafkas() -> None:
    assert bytes_by_kafka("3.9.1") == [*chain.from_iterable(RECORDED.values())]


@pytest.mark.deep
@pytest.mark.real
@pytest.mark.parametrize("release", ["2.4.1", "2.8.2", "3.3.2", "3.9.1"])
def test_every_release_reads_and_writes_the_same_bytes(release: str) -> None:
    sent = [(f"{name} {version}", encode(made, version).hex()) for name, version, made in examples()]
    answers = answers_of_kafka([f"repeat {version} {data}" for version, data in sent], release)
    known = [(row, answer) for row, answer in zip(sent, answers, strict=True) if answer != ABSENT]
    assert len(known) > 0.45 * len(sent)
    assert [row for row, answer in known if row[1] != answer] == []


@pytest.mark.deep
@pytest.mark.real
def test_headers_have_the_versions_that_kafka_gives_them() -> None:
    ours = {
        f"header {api(key).name}{kind} {version} x": str(
            api(key).request_header_version(version) if kind == "Request" else api(key).response_header_version(version)
        )
        for key in ApiKey
        for version in range(api(key).latest_version + 1)
        for kind in ("Request", "Response")
    }
    assert dict(zip(ours, answers_of_kafka([*ours], "3.9.1"), strict=True)) == ours
