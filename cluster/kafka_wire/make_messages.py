"""Write `messages/*.py` and `api_keys.py`: the types of all messages, made from `schemas/*.json`.

python -m cluster.kafka_wire.make_messages
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import Field, MessageSchema, StructSchema, load_schema, schema_names

_HERE: Final = Path(__file__).parent
_MARK: Final = "Made by cluster/kafka_wire/make_messages.py; do not edit."
_PYTHON_TYPES: Final = {"bool": "bool", "string": "str", "bytes": "bytes", "records": "bytes", "float64": "float"}


def main() -> None:
    """Write the files, and remove those of messages that are no longer there."""
    texts = generated()
    for file in (_HERE / "messages").glob("*.py"):
        if f"messages/{file.name}" not in texts:
            file.unlink()
    for name, text in texts.items():
        (_HERE / name).write_text(text, "utf-8")


def generated() -> dict[str, str]:
    """The text of every generated file, by its path within the package."""
    schemas = [load_schema(name) for name in schema_names()]
    texts = {f"messages/{snake_case(schema.name)}.py": _module(schema) for schema in schemas}
    texts["messages/__init__.py"] = f'"""The messages of Kafka\'s protocol, a module for each. {_MARK}"""\n'
    texts["api_keys.py"] = _api_keys(schemas)
    return texts


def _module(schema: MessageSchema) -> str:
    structs = list(schema.structs().values())
    topic_ids = any(field.element_type == "uuid" for struct in structs for field in struct.fields)
    lines = [
        f'"""{schema.name}, versions {schema.valid_versions}. {_MARK}"""',
        "",
        "from typing import ClassVar",
        "",
        *(["from cluster.model.broker import ZERO_TOPIC_ID, TopicId"] if topic_ids else []),
        "from cluster.kafka_wire.message import Message",
    ]
    for struct in structs:
        lines += ["", "", *_class(struct, schema)]
    return "\n".join(lines) + "\n"


def _class(struct: StructSchema, schema: MessageSchema) -> Iterator[str]:
    yield f"class {struct.name}(Message, frozen=True, kw_only=True):"
    yield f'    SCHEMA: ClassVar[str] = "{schema.name}"'
    if struct.fields:
        yield ""
    for field in struct.fields:
        line = f"    {snake_case(field.name)}: {_annotation(field)} = {_default(field)}"
        present = str(field.versions)
        # In the whole message the versions that never existed need no mention.
        yield line if present == "0+" else f"{line}  # {present}"


def _annotation(field: Field) -> str:
    name = field.element_type
    if name == "uuid":
        name = "TopicId"
    elif not field.is_struct:
        name = _PYTHON_TYPES.get(name, "int")
    if field.is_array:
        name = f"tuple[{name}, ...]"
    return f"{name} | None" if field.default_value is None or field.nullable_versions else name


def _default(field: Field) -> str:
    value = field.default_value
    if value == {}:
        return f"{field.type}()"
    return "ZERO_TOPIC_ID" if field.type == "uuid" else repr(value).replace("'", '"')


def _api_keys(schemas: list[MessageSchema]) -> str:
    requests = sorted((schema.api_key or 0, schema.name) for schema in schemas if schema.type == "request")
    keys = [f"    {snake_case(name.removesuffix('Request')).upper()} = {key}" for key, name in requests]
    head = [f'"""The APIs of Kafka that have messages here. {_MARK}"""', "", "from enum import IntEnum", "", ""]
    return "\n".join([*head, "class ApiKey(IntEnum):", *keys]) + "\n"


if __name__ == "__main__":
    main()
