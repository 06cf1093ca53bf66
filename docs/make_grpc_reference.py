"""Write docs/grpc-reference.md from the `.proto` files: every service, method, message and field, with its comment.

Run it after a change of `proto/klamm/v1/*.proto`: .venv/bin/python docs/make_grpc_reference.py
"""

import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "grpc-reference.md"
PACKAGE = ".klamm.v1."
_SERVICES, _MESSAGES, _ENUMS, _METHODS, _FIELDS, _VALUES = 6, 4, 5, 2, 2, 2
"""Numbers of these fields in descriptor.proto, of which the paths of comments consist."""
_INTRODUCTION = """# gRPC reference

Generated from `proto/klamm/v1/*.proto` by `docs/make_grpc_reference.py`. How calls behave
(presence, errors, retries, limits) is in [protocol.md](protocol.md), clients in several languages in
[grpc-clients.md](grpc-clients.md). `optional` numbers and texts have presence: absent is not 0. Field numbers are
never reused.
"""


class File:
    """A .proto file with its comments."""

    def __init__(self, descriptor: FileDescriptorProto) -> None:
        self.descriptor = descriptor
        self._comments = {
            tuple(place.path): " ".join((place.leading_comments + " " + place.trailing_comments).split())
            for place in descriptor.source_code_info.location
        }

    def comment(self, *path: int) -> str:
        return self._comments.get(path, "")


def read_files() -> list[File]:
    """What protoc makes of the files, in the order of their names."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "all.pb"
        protos = sorted((ROOT / "proto" / "klamm" / "v1").glob("*.proto"))
        include = files("grpc_tools") / "_proto"
        options = ["--include_source_info", f"--descriptor_set_out={out}", f"-I{ROOT / 'proto'}", f"-I{include}"]
        if protoc.main(["protoc", *options, *map(str, protos)]):
            raise SystemExit("protoc failed; what it says is above")
        return [File(one) for one in FileDescriptorSet.FromString(out.read_bytes()).file]


def page(sources: Sequence[File]) -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for source in sources:
        for index, service in enumerate(source.descriptor.service):
            parts.append("\n".join(_service(source, service, (_SERVICES, index))))
    parts.append("## Messages")
    for source in sources:
        for index, message in enumerate(source.descriptor.message_type):
            parts += ["\n".join(lines) for lines in _message(source, message, (_MESSAGES, index), "")]
        for index, enum in enumerate(source.descriptor.enum_type):
            parts.append("\n".join(_enum(source, enum, (_ENUMS, index), "")))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _service(source: File, service: ServiceDescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield f"## klamm.v1.{service.name}"
    if not path[1] and (comment := source.comment(12) or source.comment(2)):
        yield from ("", comment)
    yield from ("", "| method | request | response | |", "|---|---|---|---|")
    for index, method in enumerate(service.method):
        response = ("stream of " if method.server_streaming else "") + _link(method.output_type)
        comment = source.comment(*path, _METHODS, index)
        yield f"| {method.name} | {_link(method.input_type)} | {response} | {comment} |"


def _message(source: File, message: DescriptorProto, path: tuple[int, ...], outer: str) -> Iterator[Sequence[str]]:
    name = f"{outer}{message.name}"
    lines = [f"### {name}"]
    if comment := source.comment(*path):
        lines += ["", comment]
    if message.field:
        lines += ["", "| field | number | type | |", "|---|---|---|---|"]
    for index, field in enumerate(message.field):
        comment = source.comment(*path, _FIELDS, index)
        lines.append(f"| {field.name} | {field.number} | {_type(message, field)} | {comment} |")
    yield lines
    for index, inner in enumerate(message.nested_type):
        if not inner.options.map_entry:
            yield from _message(source, inner, (*path, 3, index), f"{name}.")
    for index, enum in enumerate(message.enum_type):
        yield list(_enum(source, enum, (*path, 4, index), f"{name}."))


def _enum(source: File, enum: EnumDescriptorProto, path: tuple[int, ...], outer: str) -> Iterator[str]:
    yield f"### {outer}{enum.name}"
    if comment := source.comment(*path):
        yield from ("", comment)
    yield from ("", "| value | number | |", "|---|---|---|")
    for index, value in enumerate(enum.value):
        yield f"| {value.name} | {value.number} | {source.comment(*path, _VALUES, index)} |"


def _type(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    for entry in message.nested_type:
        if entry.options.map_entry and field.type_name.endswith(f".{message.name}.{entry.name}"):
            return f"map from {_plain(entry.field[0])} to {_plain(entry.field[1])}"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {_plain(field)}"
    if field.proto3_optional:
        return f"optional {_plain(field)}"
    if field.HasField("oneof_index"):
        return f"{_plain(field)}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return _plain(field)


def _plain(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return _link(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _link(type_name: str) -> str:
    if not type_name.startswith(PACKAGE):
        return type_name.removeprefix(".")
    name = type_name.removeprefix(PACKAGE)
    return f"[{name}](#{name.lower().replace('.', '')})"


if __name__ == "__main__":
    PAGE.write_text(page(read_files()))
