"""Encoders and decoders, compiled once for each version of a message, and errors that name the field.

While all is well the compiled functions keep no track of where they are. When one fails, the lines at which its frames
stopped say which fields they were about.
"""

from collections.abc import Callable, Iterator
from functools import cache
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from struct import pack
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple

from cluster.kafka_wire.apis import struct_type
from cluster.kafka_wire.decoder_source import DECODER_NAMES, decoder_source
from cluster.kafka_wire.encoder_source import ENCODER_NAMES, encoder_source
from cluster.kafka_wire.errors import MalformedMessageError, UnsupportedVersionError
from cluster.kafka_wire.layout import layouts_of
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.primitives import ValueLeftOutError
from cluster.kafka_wire.schema import NUMBER_FORMATS, Field, load_schema
from cluster.kafka_wire.source_text import LineOwner, SourceText

ENCODE_ERRORS: Final = (StructError, ValueError, TypeError, AttributeError, ValueLeftOutError)
"""What a compiled encoder raises where a value does not fit; UnicodeEncodeError is a ValueError."""
DECODE_ERRORS: Final = (StructError, ValueError, IndexError)
"""What a compiled decoder raises for bytes that are no message."""
_SHOWN_CHARACTERS: Final = 100


class Compiled(NamedTuple):
    """The functions of one version of a message, by the names of its classes."""

    label: str
    """`LeaderAndIsrRequest v7`."""
    functions: dict[str, Callable[..., Any]]
    owners: dict[int, LineOwner]

    @property
    def file_name(self) -> str:
        return f"<{self.label}>"


@cache
def compiled_encoder(name: str, version: int) -> Compiled:
    """The encoder of a message. Raises UnsupportedVersionError."""
    _check_version(name, version)
    layouts = layouts_of(load_schema(name), version)
    return _compiled(name, version, encoder_source(layouts), ENCODER_NAMES, "write_")


@cache
def compiled_decoder(name: str, version: int) -> Compiled:
    """The decoder of a message. Raises UnsupportedVersionError."""
    _check_version(name, version)
    layouts = layouts_of(load_schema(name), version)
    return _compiled(name, version, decoder_source(layouts), DECODER_NAMES, "read_")


def _check_version(name: str, version: int) -> None:
    known = load_schema(name).valid_versions
    if version not in known:
        raise UnsupportedVersionError(f"{name} has no version {version}; it has {known}")


def _compiled(name: str, version: int, source: SourceText, names: dict[str, Any], prefix: str) -> Compiled:
    compiled = Compiled(f"{name} v{version}", {}, source.owners)
    types = {struct: struct_type(name, struct) for struct in load_schema(name).structs()}
    scope: dict[str, Any] = {**types, **names}
    # The text is made from our own schemas; nothing that was received is in it.
    exec(compile(str(source), compiled.file_name, "exec"), scope)  # noqa: S102 - the text is made here.
    for struct, type_ in types.items():
        compiled.functions[type_.__name__] = scope[f"{prefix}{struct}"]
    return compiled


def encode_failure(compiled: Compiled, error: Exception) -> Exception:
    """The error to raise for one of ENCODE_ERRORS, with the path of the field and its value."""
    steps = [step for step in _steps(compiled, error.__traceback__) if isinstance(step[0].f_locals["value"], Message)]
    if not steps:
        return MalformedMessageError(compiled.label, "", str(error))
    frame, owner = steps[-1]
    field = _unfit(frame.f_locals["value"], owner)
    value = getattr(frame.f_locals["value"], snake_case(field.name), None)
    if owner.is_element:
        value = frame.f_locals["element"]
    path = ".".join([*(_step(*step) for step in steps[:-1]), _step(frame, LineOwner((field,), owner.is_element))])
    if isinstance(error, ValueLeftOutError):
        return UnsupportedVersionError(f"{compiled.label} has no room for {path} = {_shown(value)}")
    return MalformedMessageError(compiled.label, path, f"{_shown(value)} does not fit {_kind(field, owner)}: {error}")


def decode_failure(compiled: Compiled, error: Exception) -> MalformedMessageError:
    """The error to raise for one of DECODE_ERRORS, with the path of the field and the position in the bytes."""
    frames = [frame for frame, _ in _frames(compiled, error.__traceback__)]
    steps = list(_steps(compiled, error.__traceback__))
    position = frames[-1].f_locals["at"] if frames else 0
    why = "the bytes end within it" if isinstance(error, StructError | IndexError) else str(error)
    path = ".".join(_step(*step) for step in steps)
    return MalformedMessageError(compiled.label, path, f"{why} (at byte {position})")


def _frames(compiled: Compiled, traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == compiled.file_name:
            yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _steps(compiled: Compiled, traceback: TracebackType | None) -> Iterator[tuple[FrameType, LineOwner]]:
    for frame, line in _frames(compiled, traceback):
        if (owner := compiled.owners.get(line)) is not None:
            yield frame, owner


def _step(frame: FrameType, owner: LineOwner) -> str:
    """A part of a path; a run of fields that were read at once is named by its first and last."""
    names = [snake_case(field.name) for field in owner.fields]
    name = names[0] if len(names) == 1 else f"{names[0]}…{names[-1]}"
    return f"{name}[{frame.f_locals['index']}]" if owner.is_element else name


def _unfit(value: Any, owner: LineOwner) -> Field:
    """The field of a run that cannot be packed."""
    for field in owner.fields[:-1]:
        try:
            pack(f">{NUMBER_FORMATS[field.type]}", getattr(value, snake_case(field.name)))
        except StructError:
            return field
    return owner.fields[-1]


def _kind(field: Field, owner: LineOwner) -> str:
    return field.element_type if owner.is_element else field.type


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
