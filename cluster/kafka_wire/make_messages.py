"""Write `messages/*.py`: the types of all messages, made from `schemas/*.json`, and the served APIs (`api_keys.py`).

python -m cluster.kafka_wire.make_messages
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

from cluster.kafka_wire.make_schemas import FAMILIES, PASSED_ON, family_of
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import Field, MessageSchema, StructSchema, load_apis, load_schema, schema_names

_HERE: Final = Path(__file__).parent
_MARK: Final = "Made by cluster/kafka_wire/make_messages.py; do not edit."
_PYTHON_TYPES: Final = {"bool": "bool", "string": "str", "bytes": "bytes", "records": "bytes", "float64": "float"}


def main() -> None:
    """Write the files, and remove those of families that are no longer there."""
    texts = generated()
    for file in (_HERE / "messages").glob("*.py"):
        if f"messages/{file.name}" not in texts:
            file.unlink()
    for name, text in texts.items():
        (_HERE / name).write_text(text, "utf-8")


def generated() -> dict[str, str]:
    """The text of every generated file, by its path within the package."""
    schemas = [load_schema(name) for name in schema_names()]
    used = Counter(name for schema in schemas for name in schema.structs())
    texts = {
        f"messages/{family}.py": _module([s for s in schemas if family_of(s.name) == family], used)
        for family in (*FAMILIES, *PASSED_ON)
    }
    texts["messages/__init__.py"] = _index(schemas)
    texts["messages/api_keys.py"] = _api_keys()
    return texts


def _index(schemas: Sequence[MessageSchema]) -> str:
    rows = [f'    "{schema.name}": "{family_of(schema.name)}",' for schema in schemas]
    head = f'"""The messages of Kafka\'s protocol, a module for each family. {_MARK}"""'
    return "\n".join([head, "", "MODULES = {", *rows, "}", '"""The module of each message."""']) + "\n"


def _module(schemas: Sequence[MessageSchema], used: Counter[str]) -> str:
    """Write a module. `used`: the number of messages that have a struct of each name; with several, the message's
    name is put before it.
    """
    structs = [struct for schema in schemas for struct in schema.structs().values()]
    topic_ids = any(field.element_type == "uuid" for struct in structs for field in struct.fields)
    names = ", ".join(f"{schema.name} {schema.valid_versions}" for schema in schemas)
    lines = [
        f'"""{_MARK}',
        "",
        *wrap(f"Messages and their versions: {names}.", 120),
        '"""',
        "",
        "from typing import ClassVar",
        "",
        "from cluster.kafka_wire.message import Message",
        *(["from cluster.model.broker import ZERO_TOPIC_ID, TopicId"] if topic_ids else []),
    ]
    for schema in schemas:
        names_of = {name: name if used[name] == 1 else schema.name + name for name in schema.structs()}
        for struct in schema.structs().values():
            lines += ["", "", *_class(struct, schema, names_of)]
    return "\n".join(lines) + "\n"


def _class(struct: StructSchema, schema: MessageSchema, names: dict[str, str]) -> Iterator[str]:
    yield f"class {names[struct.name]}(Message, frozen=True, kw_only=True):"
    yield f'    SCHEMA: ClassVar[str] = "{schema.name}"'
    if struct.fields:
        yield ""
    for field in struct.fields:
        line = f"    {snake_case(field.name)}: {_annotation(field, names)} = {_default(field, names)}"
        present = str(field.versions)
        # In the whole message the versions that never existed need no mention.
        yield line if present == "0+" else f"{line}  # {present}"


def _annotation(field: Field, names: dict[str, str]) -> str:
    name = names.get(field.element_type, field.element_type)
    if name == "uuid":
        name = "TopicId"
    elif not field.is_struct:
        name = _PYTHON_TYPES.get(name, "int")
    if field.is_array:
        name = f"tuple[{name}, ...]"
    return f"{name} | None" if field.default_value is None or field.nullable_versions else name


def _default(field: Field, names: dict[str, str]) -> str:
    value = field.default_value
    if value == {}:
        return f"{names[field.type]}()"
    return "ZERO_TOPIC_ID" if field.type == "uuid" else repr(value).replace("'", '"')


def _api_keys() -> str:
    keys = [f"    {snake_case(api.name).upper()} = {key}" for key, api in load_apis().items()]
    head = [
        f'"""The APIs of Kafka that its brokers in ZooKeeper mode serve. {_MARK}"""',
        "",
        "from enum import IntEnum",
    ]
    return "\n".join([*head, "", "", "class ApiKey(IntEnum):", *keys]) + "\n"


if __name__ == "__main__":
    main()
