"""Makes principals from the distinguished names of certificates, by Kafka's `ssl.principal.mapping.rules`.

    RULE:pattern/replacement/    RULE:pattern/replacement/L    RULE:pattern/replacement/U    DEFAULT

Rules stand in a list with commas; the first whose pattern matches the whole name counts, and DEFAULT takes it as it is.
Source: Kafka SslPrincipalMapper, KIP-371.
"""

import re
import warnings
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.security.principals import USER, Principal

SETTING: Final = "ssl.principal.mapping.rules"
NAME_LENGTH_MAX: Final = 256
"""In characters; of a distinguished name and of a principal, which is repeated in every record of a change."""

_ESCAPED: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_ESCAPED})/(?P<replacement>{_ESCAPED})/(?P<case>[LU]?))?"
    r"\s*(?:,|\Z)",
    re.DOTALL,
)
# What Java writes `(?<name>` is `(?P<name>` here; `(?<=` and `(?<!` are the same in both.
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_PART: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<dollar>\$)", re.DOTALL)


class MappingRule(Struct, frozen=True):
    """One rule. `pattern` None: it takes every name as it is.

    `replacement`: texts, and the numbers of groups that stand in their place. `case`: L, U or nothing.
    """

    pattern: re.Pattern[str] | None = None
    replacement: tuple[str | int, ...] = ()
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The name of the principal; None if the rule is for other names."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Like Java's replaceAll, which looks for the pattern once more, and also finds it in a part of the name.
        found = self.pattern.sub(self._expand, name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement)


class PrincipalMapping(Struct, frozen=True):
    """The rules of a listener, in their order."""

    rules: tuple[MappingRule, ...] = (MappingRule(),)

    def principal_of(self, subject: str) -> Principal:
        """The principal of a distinguished name. Raises ConfigError if no rule is for it, or a name is too long."""
        if len(subject) > NAME_LENGTH_MAX:
            raise ConfigError([f"certificate: its distinguished name has more than {NAME_LENGTH_MAX} characters"])
        found = next((name for rule in self.rules if (name := rule.apply(subject)) is not None), None)
        if found is None:
            raise ConfigError([f"certificate: none of {SETTING} is for its distinguished name {subject!r}"])
        if not 0 < len(found) <= NAME_LENGTH_MAX:
            raise ConfigError(
                [
                    f"certificate: {SETTING} make a name of {len(found)} characters from {subject!r}: "
                    f"1 to {NAME_LENGTH_MAX} are allowed"
                ]
            )
        return Principal(USER, found)


def parse_mapping_rules(text: str) -> PrincipalMapping:
    """Parse the setting; empty rules between commas count for nothing, as in Kafka. Raises ConfigError that
    quotes what is wrong.
    """
    rules, position = list[MappingRule](), 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            rest = text[position:].strip()
            raise ConfigError([f"{rest!r}: is neither DEFAULT nor RULE:pattern/replacement/ with L, U or nothing"])
        if found["default"]:
            rules.append(MappingRule())
        elif found["pattern"] is not None:
            rules.append(_rule(found["pattern"], found["replacement"], found["case"]))
        position = found.end()
    if not rules:
        raise ConfigError([f"{text!r}: has no rule, so no certificate would be accepted"])
    return PrincipalMapping(tuple(rules))


def _rule(pattern: str, replacement: str, case: str) -> MappingRule:
    try:
        with warnings.catch_warnings():
            # Sets within sets are Java's; Python would take their brackets for characters.
            warnings.simplefilter("error")
            # Java's \w and \d are of ASCII.
            compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise ConfigError([f"pattern {pattern!r}: {error}"]) from error
    return MappingRule(compiled, tuple(_parts(replacement, compiled)), case)


def _parts(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """The texts and groups of a replacement. A group that the pattern does not have is text, unless it has none."""
    parts, end = list[str | int](), 0
    for found in _PART.finditer(replacement):
        parts += [replacement[end : found.start()], *_part(found, pattern)]
        end = found.end()
    return [*parts, replacement[end:]]


def _part(found: re.Match[str], pattern: re.Pattern[str]) -> list[str | int]:
    if found["literal"] is not None:
        return [found["literal"]]
    if found["name"] in pattern.groupindex:
        return [pattern.groupindex[found["name"]]]
    digits = found["number"]
    if digits is None or (pattern.groups == 0 and not digits.startswith("0")):
        raise ConfigError([f"replacement: {found[0]}: the pattern {pattern.pattern!r} has no such group"])
    # As many digits as name a group; those that are left are text.
    taken = len(digits)
    while taken > 1 and int(digits[:taken]) > pattern.groups:
        taken -= 1
    group = int(digits[:taken])
    return [group, digits[taken:]] if group <= pattern.groups else [found[0]]
