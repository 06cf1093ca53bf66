"""Decodes znodes written by others: a malformed one is logged with path and content and treated as missing."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import structlog

from cluster.model.errors import MalformedZnodeError

_Key = TypeVar("_Key")
_Content = TypeVar("_Content")
_T = TypeVar("_T")
_SHOWN_LENGTH: Final = 300
_log = structlog.stdlib.get_logger()


def report_malformed(error: MalformedZnodeError) -> None:
    """Log a malformed znode that is skipped."""
    _log.warning(
        "Skipped a malformed znode", path=error.path[:_SHOWN_LENGTH], data=error.data[:_SHOWN_LENGTH], why=error.why
    )


def decode_each(
    keys: Iterable[_Key],
    contents: Iterable[_Content | None],
    decode: Callable[[_Key, _Content], _T],
    *,
    report: Callable[[MalformedZnodeError], None] = report_malformed,
) -> dict[_Key, _T]:
    """Decode the content of each key; missing (None) and malformed ones are omitted, the latter reported."""
    found: dict[_Key, _T] = {}
    for key, content in zip(keys, contents, strict=True):
        if content is not None:
            try:
                found[key] = decode(key, content)
            except MalformedZnodeError as error:
                report(error)
    return found
