"""Java's regular expressions and replacements, as Kafka's mapping rules have them, for Python's `re`.

Source: java.util.regex.Pattern, Matcher.appendReplacement.
"""

import re
import warnings
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError

# What Java writes `(?<name>` is `(?P<name>` here; `(?<=` and `(?<!` are the same in both.
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
# What is escaped, and sets, whose dots are dots; or a dot that stands for a character.
_LEXEME: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_WITH_DOTALL: Final = re.compile(r"\(\?[a-zA-Z]*s")
_NO_END_OF_LINE: Final = "[^\n\r\x85\u2028\u2029]"
"""The characters that a dot stands for in Java. In Python it stands for all but the first of these."""
_PART: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<dollar>\$)", re.DOTALL)


class JavaReplacement(Struct, frozen=True):
    """Puts something in the place of what a pattern matches. `parts`: texts, and the numbers of groups."""

    pattern: re.Pattern[str]
    parts: tuple[str | int, ...]

    def of_all(self, text: str) -> str:
        """Replace every match, as Java's replaceAll."""
        return self.pattern.sub(self._expand, text)

    def of_first(self, text: str) -> str:
        """Replace the first match, as Java's replaceFirst."""
        return self.pattern.sub(self._expand, text, count=1)

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


def java_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Java's. Raises ConfigError that quotes it."""
    try:
        with warnings.catch_warnings():
            # Sets within sets are Java's; Python would take their brackets for characters.
            warnings.simplefilter("error")
            # Java's \w and \d are of ASCII.
            return re.compile(_with_dots(_NAMED_GROUP.sub("(?P<", pattern)), re.ASCII)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise ConfigError([f"pattern {pattern!r}: {error}"]) from error


def _with_dots(pattern: str) -> str:
    """Write the dots of a pattern so that whoever is named by what they leave out is not named by it here, either."""
    if _WITH_DOTALL.search(pattern):
        return pattern
    return _LEXEME.sub(lambda found: _NO_END_OF_LINE if found[0] == "." else found[0], pattern)


def java_replacement(pattern: re.Pattern[str], replacement: str, *, keeps_unknown: bool) -> JavaReplacement:
    """Parse a replacement for a pattern: `$1` and `${name}` are groups, and a backslash takes its meaning from what
    follows.

    `keeps_unknown`: whether a group beyond those that the pattern has is text, as in Kafka's rules for certificates.
    Raises ConfigError for any other group that the pattern does not have.
    """
    parts, end = list[str | int](), 0
    for found in _PART.finditer(replacement):
        parts += [replacement[end : found.start()], *_part(found, pattern, keeps_unknown)]
        end = found.end()
    return JavaReplacement(pattern, (*parts, replacement[end:]))


def _part(found: re.Match[str], pattern: re.Pattern[str], keeps_unknown: bool) -> list[str | int]:
    if found["literal"] is not None:
        return [found["literal"]]
    if found["name"] in pattern.groupindex:
        return [pattern.groupindex[found["name"]]]
    digits = found["number"] or ""
    # As many digits as name a group; those that are left are text.
    taken = len(digits)
    while taken > 1 and int(digits[:taken]) > pattern.groups:
        taken -= 1
    if digits and int(digits[:taken]) <= pattern.groups:
        return [int(digits[:taken]), digits[taken:]]
    if digits and pattern.groups and keeps_unknown:
        return [found[0]]
    raise ConfigError([f"replacement: {found[0]}: the pattern {pattern.pattern!r} has no such group"])
