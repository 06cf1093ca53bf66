"""How a client says to ZooKeeper who it is, and the JAAS file in which Kafka's operators write that down.

Source: Kafka's documentation of ZooKeeper authentication; the grammar of javax.security.auth.login.Configuration.
"""

import re
from enum import Enum
from typing import Final

from msgspec import Struct

# Comments, words in quotes (left in them, so that they cannot be taken for signs), signs, words.
_TOKEN: Final = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|[{};=]|[^\s{};="]+)', re.DOTALL)


class Scheme(Enum):
    """How the user is proven."""

    SASL = "sasl"
    """SASL with DIGEST-MD5, as Kafka does it: the server knows its users and refuses everyone else."""
    DIGEST = "digest"
    """ZooKeeper's own `digest`: no set-up of the server; whoever knows user and password is the same identity."""


class Credentials(Struct, frozen=True):
    """Who a process is to ZooKeeper, and by which scheme it proves that."""

    scheme: Scheme
    username: str
    password: str

    def __repr__(self) -> str:
        """Without the password, which must not get into a log by accident."""
        return f"Credentials({self.scheme.value}, {self.username!r})"


def parse_login(text: str, section: str, scheme: Scheme) -> Credentials:
    """User and password of one section of a JAAS file. Raises ValueError, whose text never has what is in the file."""
    sections = _sections(text)
    if section not in sections:
        raise ValueError(f"has no section {section}")
    options = sections[section]
    for option in ("username", "password"):
        if not options.get(option):
            raise ValueError(f"section {section} has no {option}")
    return Credentials(scheme, options["username"], options["password"])


def _sections(text: str) -> dict[str, dict[str, str]]:
    """Options by section; where several login modules of a section give the same option, the first one's."""
    tokens = ["", *filter(None, _TOKEN.findall(text)), ""]
    sections: dict[str, dict[str, str]] = {}
    options: dict[str, str] = {}
    for position, token in enumerate(tokens):
        if token == "{":
            options = sections.setdefault(tokens[position - 1], {})
        elif token == "=":
            options.setdefault(tokens[position - 1], _unquoted(tokens[position + 1]))
    return sections


def _unquoted(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token
