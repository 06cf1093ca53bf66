"""Settings of single listeners: keys with the prefix `listener.name.` and a listener's name. Source: KIP-103."""

import re
from typing import Any


def gather_of_listeners(values: Any, key_of_listener: re.Pattern[str], into: str) -> Any:
    """Gather the keys that the pattern matches into one value under the key `into`: listener name -> key -> value.

    The pattern has two groups: the name of the listener, in any case, and the key without the prefix.
    """
    if not isinstance(values, dict):
        return values
    found: dict[str, dict[str, object]] = {}
    rest: dict[Any, Any] = {}
    for key, value in values.items():
        match = key_of_listener.fullmatch(str(key))
        if match is None:
            rest[key] = value
        else:
            found.setdefault(match[1].upper(), {})[match[2]] = value
    return rest | {into: found} if found else rest
