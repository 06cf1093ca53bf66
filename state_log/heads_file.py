"""`heads.json`: where the state-change logs of a cluster ended at some time, as ZooKeeper or the nodes say."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from cluster.config.files import first_line
from cluster.model.errors import DECODE_ERRORS, ClusterError
from cluster.requests.control import StateLogHead
from state_log.witnessed_heads import why_malformed

HEADS_VERSION: Final = 1
_BYTES_MAX: Final = 64 << 20
_SHOWN: Final = 40
_STEP: Final = re.compile(r"\.([^.\[`]+)|\[([0-9]+)\]")


class HeadsError(ClusterError):
    """A file of heads is not as `klamm audit heads` writes it."""


class GivenHead(StateLogHead, frozen=True, omit_defaults=True):
    """`at_ms`: when the head was read, by the clock of ZooKeeper or of who asked; -1 where that is unknown."""

    at_ms: int = -1


class _Heads(Struct, forbid_unknown_fields=True):
    heads: tuple[GivenHead, ...]
    version: int = HEADS_VERSION


def encode_heads_file(heads: Sequence[GivenHead]) -> bytes:
    """The content of `heads.json`."""
    return msgspec.json.format(msgspec.json.encode(_Heads(tuple(heads))), indent=2) + b"\n"


def read_heads_file(path: Path) -> tuple[GivenHead, ...]:
    """The heads in the file. Raises HeadsError, which names the field and its value, and OSError."""
    with path.open("rb") as file:
        data = file.read(_BYTES_MAX + 1)
    if len(data) > _BYTES_MAX:
        raise HeadsError(f"{path}: has more than {_BYTES_MAX} bytes: is it a file of 'klamm audit heads'?")
    try:
        body = msgspec.json.decode(data, type=_Heads)
    except DECODE_ERRORS as error:
        why = first_line(error)
        raise HeadsError(f"{path}: {why}: {_value_at(data, why)}; write it by 'klamm audit heads'") from error
    if body.version != HEADS_VERSION:
        raise HeadsError(f"{path}: version: {body.version}: this klamm reads version {HEADS_VERSION}")
    for number, head in enumerate(body.heads):
        why_not = why_malformed(head)
        if why_not is not None:
            raise HeadsError(f"{path}: heads[{number}].{why_not}; write it by 'klamm audit heads'")
    return body.heads


def _value_at(data: bytes, why: str) -> str:
    """The value that a decoding error is about, as in "Expected `int`, got `str` - at `$.heads[0].seq`"."""
    try:
        value = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return repr(data[:_SHOWN])
    try:
        for name, index in _STEP.findall(why.partition(" - at `$")[2]):
            value = value[name] if name else value[int(index)]
    except (LookupError, TypeError, ValueError):
        # The error is about a key, or about something that is absent.
        return "absent"
    return repr(value)[:_SHOWN]
