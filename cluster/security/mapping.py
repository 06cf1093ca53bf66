"""Makes principals from the distinguished names of certificates, by Kafka's `ssl.principal.mapping.rules`.

    RULE:pattern/replacement/    RULE:pattern/replacement/L    RULE:pattern/replacement/U    DEFAULT

Rules stand in a list with commas; the first whose pattern matches the whole name counts, and DEFAULT takes it as it is.
Source: Kafka SslPrincipalMapper, KIP-371.
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.security.java_patterns import JavaReplacement, java_pattern, java_replacement
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


class MappingRule(Struct, frozen=True):
    """One rule. `replacement` None: it takes every name as it is. `case`: L, U or nothing."""

    replacement: JavaReplacement | None = None
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The name of the principal; None if the rule is for other names."""
        if self.replacement is None:
            return name
        if self.replacement.pattern.fullmatch(name) is None:
            return None
        # It looks for the pattern once more, and also finds it in a part of the name.
        found = self.replacement.of_all(name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class PrincipalMapping(Struct, frozen=True):
    """The rules of a listener, in their order."""

    rules: tuple[MappingRule, ...] = (MappingRule(),)

    def principal_of(self, subject: str) -> Principal:
        """The principal of a distinguished name. Raises ConfigError if no rule is for it, or a name is too long."""
        if len(subject) > NAME_LENGTH_MAX:
            raise ConfigError([f"certificate: its distinguished name has more than {NAME_LENGTH_MAX} characters"])
        found = _named_by(self, subject)
        if isinstance(found, str):
            raise ConfigError([found])
        return found


@lru_cache(maxsize=1024)
def _named_by(mapping: PrincipalMapping, subject: str) -> Principal | str:
    """Find the principal, or say why there is none. It is asked for at every call, and rules such as those in Kafka's
    documentation take tens of milliseconds for the names of some certificates.
    """
    found = next((name for rule in mapping.rules if (name := rule.apply(subject)) is not None), None)
    if found is None:
        return f"certificate: none of {SETTING} is for its distinguished name {subject!r}"
    if not 0 < len(found) <= NAME_LENGTH_MAX:
        return (
            f"certificate: {SETTING} make a name of {len(found)} characters from {subject!r}: "
            f"1 to {NAME_LENGTH_MAX} are allowed"
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
    return MappingRule(java_replacement(java_pattern(pattern), replacement, keeps_unknown=True), case)
