"""What is said of a value that an option does not take, instead of what the library for options says."""

from typing import Any

import typer


def reworded(error: typer.BadParameter) -> str:
    """The message with the value and what it must be; as it is where the library did not make it.

    Recent versions of typer convert values by pydantic, whose error is the cause; others name the value themselves.
    """
    from pydantic import ValidationError

    from cluster.config.files import shown
    from cluster.config.validation_reasons import BOUNDED, reason

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    (detail, *_) = error.__cause__.errors()
    option: Any = error.param
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if detail["type"] == "value_error":
        return reason(detail)
    bounded = detail["type"] in BOUNDED and least is not None and most is not None
    return f"{shown(detail['input'])}: {f'must be from {least:,} to {most:,}' if bounded else reason(detail)}"
