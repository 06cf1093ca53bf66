"""Commands in messages, named as this one was typed: in a clone, `klamm` is not on the PATH and `./klamm` is."""

import os
import re
from typing import Final

_COMMAND: Final = "_KLAMM_COMMAND"
"""Set by the script `klamm` of a clone where it is not on the PATH."""
_NAMED: Final = re.compile(r"(['`])klamm ")


def typed_command() -> str:
    return os.environ.get(_COMMAND) or "klamm"


def as_typed(text: str) -> str:
    """The text with the commands in quotes, such as 'klamm up', as they are to be typed here."""
    return _NAMED.sub(lambda found: f"{found[1]}{typed_command()} ", text)
