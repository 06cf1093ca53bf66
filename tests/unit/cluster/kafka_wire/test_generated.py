"""The generated files are what the schemas say."""

from itertools import chain
from pathlib import Path

import pytest

from cluster.kafka_wire import make_messages, make_schemas, schema
from cluster.kafka_wire.apis import api
from cluster.kafka_wire.make_schemas import FAMILIES
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.names import snake_case

PACKAGE = Path(schema.__file__).parent


def test_messages_are_made_from_the_schemas() -> None:
    checked_in = {file.relative_to(PACKAGE).as_posix(): file.read_text() for file in PACKAGE.glob("messages/*.py")}
    assert make_messages.generated() == checked_in, "run .venv/bin/python -m cluster.kafka_wire.make_messages"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LeaderAndIsr", "leader_and_isr"),
        ("isKRaftController", "is_kraft_controller"),
        ("V0Host", "v0_host"),
        ("V3AndBelowTransactionalId", "v3_and_below_transactional_id"),
        ("ISRNodes", "isr_nodes"),
    ],
)
def test_names_are_in_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


@pytest.mark.parametrize("name", schema.schema_names())
def test_messages_have_the_versions_of_their_api(name: str) -> None:
    message = schema.load_schema(name)
    if message.api_key is not None:
        called = schema.load_apis()[message.api_key]
        assert (api(ApiKey(message.api_key)).name, message.type) == (called.name, message.type)
        assert message.name == called.name + message.type.capitalize()
        assert str(message.valid_versions) == str(called.valid_versions)
        assert str(message.flexible_versions) == str(called.flexible_versions)


def test_every_listed_message_is_there() -> None:
    named = {name.removesuffix("Request").removesuffix("Response") for name in schema.schema_names()}
    assert {name.removesuffix("Request").removesuffix("Response") for name in chain(*FAMILIES.values())} <= named


@pytest.mark.deep
def test_the_schemas_are_made_from_kafkas_messages() -> None:
    found = make_schemas.definitions(make_schemas.fetched_jar())
    made = {definition["name"]: make_schemas.as_text(definition) for definition in make_schemas.kept(found)}
    assert made == {name: (schema.SCHEMAS / f"{name}.json").read_text() for name in schema.schema_names()}
    assert make_schemas.apis_as_text(found) == schema.APIS.read_text()
