"""The generated files are what the schemas say."""

from pathlib import Path

import pytest

from cluster.kafka_wire import make_messages, schema
from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.apis import api
from cluster.kafka_wire.names import snake_case

PACKAGE = Path(schema.__file__).parent


def test_messages_are_made_from_the_schemas() -> None:
    checked_in = {
        file.relative_to(PACKAGE).as_posix(): file.read_text()
        for file in (*PACKAGE.glob("messages/*.py"), PACKAGE / "api_keys.py")
    }
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


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_request_and_response_have_the_same_versions(key: ApiKey) -> None:
    request, response = (schema.load_schema(kind.SCHEMA) for kind in (api(key).request_type, api(key).response_type))
    assert (request.api_key, request.type, response.api_key, response.type) == (key, "request", key, "response")
    assert str(request.valid_versions) == str(response.valid_versions)
    assert str(request.flexible_versions) == str(response.flexible_versions)
