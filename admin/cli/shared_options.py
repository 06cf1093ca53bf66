"""Makes options that several commands share into one argument of each command."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def with_options(
    command: Callable[..., None], name: str, options: Mapping[str, tuple[Any, object]], make: Callable[..., object]
) -> Callable[..., None]:
    """Give a command these options in place of the keyword argument `name`, which is made from their values."""

    @functools.wraps(command)
    def decorated(**values: Any) -> None:
        made = make(**{option: values.pop(option) for option in options})
        command(**values, **{name: made})

    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != name]
    shared = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for option, (annotation, default) in options.items()
    ]
    # Typer builds the command line from the signature and the annotations.
    decorated.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    decorated.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    return decorated
