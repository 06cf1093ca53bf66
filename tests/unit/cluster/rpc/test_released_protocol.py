"""What release 0.2.0 says on the wire is still said so: old and new processes and clients talk to one another.

`klamm-0.2.0.binpb` is the descriptor set of the release that docs/releases.md names:
`python -m grpc_tools.protoc -I proto --descriptor_set_out=klamm-0.2.0.binpb proto/klamm/v1/*.proto` at its commit.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

RELEASE = Path(__file__).parent / "klamm-0.2.0.binpb"
PROTOS = Path(__file__).resolve().parents[4] / "proto" / "klamm" / "v1"


def released() -> list[FileDescriptorProto]:
    return list(FileDescriptorSet.FromString(RELEASE.read_bytes()).file)


def current() -> list[FileDescriptorProto]:
    files = []
    for path in sorted(PROTOS.glob("*.proto")):
        file = FileDescriptorProto()
        import_module(f"klamm.v1.{path.stem}_pb2").DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def messages(container: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Messages by full name, with those inside them."""
    for message in getattr(container, "message_type", None) or getattr(container, "nested_type", ()):
        name = f"{prefix}.{message.name}"
        yield name, message
        yield from messages(message, name)


def field_shape(field: FieldDescriptorProto) -> tuple[Any, ...]:
    return field.name, field.type, field.label, field.type_name, field.proto3_optional


def problems(old: Sequence[FileDescriptorProto], new: Sequence[FileDescriptorProto]) -> list[str]:
    """What of the old files means something else in the new ones, or is gone without being reserved."""
    return [*_of_messages(old, new), *_of_enums(old, new), *_of_services(old, new)]


def _of_messages(old: Sequence[FileDescriptorProto], new: Sequence[FileDescriptorProto]) -> Iterator[str]:
    now = {name: message for file in new for name, message in messages(file, file.package)}
    for name, message in ((n, m) for file in old for n, m in messages(file, file.package)):
        if name not in now:
            yield f"message {name} is gone"
            continue
        fields = {field.number: field for field in now[name].field}
        reserved = {n for span in now[name].reserved_range for n in range(span.start, span.end)}
        for field in message.field:
            found = fields.get(field.number)
            if found is None and not (field.number in reserved and field.name in now[name].reserved_name):
                yield f"{name}.{field.name} is gone, and number {field.number} or its name is not reserved"
            if found is not None and field_shape(found) != field_shape(field):
                yield f"{name}.{field.name} was {field_shape(field)} and is {field_shape(found)}"


def _of_enums(old: Sequence[FileDescriptorProto], new: Sequence[FileDescriptorProto]) -> Iterator[str]:
    now = {(e.name, v.number): v.name for file in new for e in file.enum_type for v in e.value}
    for file in old:
        for enum in file.enum_type:
            for value in enum.value:
                if now.get((enum.name, value.number)) != value.name:
                    yield f"enum {enum.name}: {value.number} is not {value.name} any more"


def _of_services(old: Sequence[FileDescriptorProto], new: Sequence[FileDescriptorProto]) -> Iterator[str]:
    def methods(files: Sequence[FileDescriptorProto]) -> dict[str, tuple[Any, ...]]:
        return {
            f"{file.package}.{service.name}/{m.name}": (
                m.input_type,
                m.output_type,
                m.client_streaming,
                m.server_streaming,
            )
            for file in files
            for service in file.service
            for m in service.method
        }

    now = methods(new)
    for name, shape in methods(old).items():
        if now.get(name) != shape:
            yield f"method {name} was {shape} and is {now.get(name)}"


def test_everything_of_release_0_2_0_means_the_same() -> None:
    assert problems(released(), current()) == []


def test_the_release_has_what_is_compared() -> None:
    files = released()
    assert sum(len(message.field) for file in files for _, message in messages(file, file.package)) > 300
    assert sum(len(service.method) for file in files for service in file.service) > 20


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: setattr(m.field[0], "number", 99), "is gone"),
        (lambda m: setattr(m.field[0], "name", "renamed"), "was"),
        (lambda m: setattr(m.field[0], "type", FieldDescriptorProto.TYPE_SFIXED64), "was"),
        (lambda m: m.ClearField("field"), "not reserved"),
        (lambda m: setattr(m, "name", "Renamed"), "is gone"),
    ],
)
def test_a_breaking_change_would_be_noticed(change: Any, complaint: str) -> None:
    files = current()
    change(next(message for file in files for _, message in messages(file, file.package) if message.field))
    assert any(complaint in problem for problem in problems(current(), files))
