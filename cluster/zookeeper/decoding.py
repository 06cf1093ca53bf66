"""Contents of znodes that others write: one that is malformed is logged with its path and bytes and reads as absent."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from cluster.errors import MalformedZnodeError

_Key = TypeVar("_Key")
_Content = TypeVar("_Content")
_T = TypeVar("_T")
_log = structlog.stdlib.get_logger()


def decode_each(
    keys: Iterable[_Key], contents: Iterable[_Content | None], decode: Callable[[_Key, _Content], _T]
) -> dict[_Key, _T]:
    """What the content of each key says; absent (None) and malformed ones are left out."""
    found: dict[_Key, _T] = {}
    for key, content in zip(keys, contents, strict=True):
        if content is not None:
            try:
                found[key] = decode(key, content)
            except MalformedZnodeError as error:
                report_malformed(error)
    return found


def report_malformed(error: MalformedZnodeError) -> None:
    """Log it, where the procedure goes on without the node."""
    _log.warning("Skipping a malformed znode", path=error.path, data=error.data, why=error.why)
