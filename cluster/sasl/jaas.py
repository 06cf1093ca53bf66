"""The syntax of JAAS: sections of a file, and Kafka's `sasl.jaas.config`, which is one entry of a section.

Source: the grammar of javax.security.auth.login.Configuration; Kafka JaasConfig, JaasContext.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.model.errors import ConfigError

# Comments, quoted strings (kept with their quotes, to distinguish them from symbols), symbols, identifiers.
_TOKEN: Final = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|[{};=]|[^\s{};="]+)', re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


class LoginModule(NamedTuple):
    """One entry: the class of the module, and its options."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Leave out the options, which have passwords."""
        return f"LoginModule({self.name!r}, (not shown))"


def tokens_of(text: str) -> list[str]:
    """Split a text into its tokens, quoted strings with their quotes."""
    return list(filter(None, _TOKEN.findall(text)))


def unquoted(token: str) -> str:
    """Take the quotes from a token, if it has any."""
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token


def parse_login_module(text: str) -> LoginModule:
    """Parse `sasl.jaas.config`: `CLASS required option="value" …;`, exactly one. Raises ConfigError, which quotes
    nothing but the class.
    """
    return _parse_module(tokens_of(text))


def parse_sections(text: str) -> dict[str, list[LoginModule]]:
    """Parse the sections of a file, `NAME { CLASS required option="value" …; };`, each with its login modules. Raises
    ConfigError, which quotes nothing but classes and names of sections.
    """
    sections: dict[str, list[LoginModule]] = {}
    name, entry = "", list[str]()
    for token in tokens_of(text):
        if token == "{":  # noqa: S105 - the name of a kind.
            name, entry = (unquoted(entry[0]) if len(entry) == 1 else ""), []
            sections.setdefault(name, [])
            continue
        if token == "}":  # noqa: S105 - the name of a kind.
            if entry:
                raise ConfigError([f"section {name}: the last entry has no ';'"])
            name = ""
            continue
        if token != ";" or name or entry:  # noqa: S105 - the name of a kind.
            entry.append(token)
        if token == ";" and name:  # noqa: S105 - the name of a kind.
            try:
                sections[name].append(_parse_module(entry))
            except ConfigError as error:
                raise ConfigError([f"section {name}: {line}" for line in error.errors]) from error
            entry = []
    return sections


def _parse_module(tokens: list[str]) -> LoginModule:
    name, flag, *rest = tokens if len(tokens) > 1 else ("", "")
    if not name or flag.lower() not in _FLAGS:
        raise ConfigError(['is not of the form CLASS required username="…" password="…";'])
    if not rest or rest[-1] != ";" or rest.count(";") > 1:
        raise ConfigError([f"{name}: must end with one ';'"])
    options = rest[:-1]
    if len(options) % 3 or any(symbol != "=" for symbol in options[1::3]):
        raise ConfigError([f"{name}: its options must be name=value with spaces between them"])
    found = {key: unquoted(value) for key, value in zip(options[::3], options[2::3], strict=True)}
    return LoginModule(unquoted(name), found)
