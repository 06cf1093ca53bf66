"""Makes users from Kerberos principals, by Kafka's `sasl.kerberos.principal.to.local.rules`.

    DEFAULT    RULE:[n:format]    RULE:[n:format](pattern)    RULE:[n:format](pattern)s/pattern/replacement/g/L

`n`: how many components the principal has before its realm; in `format` `$0` is the realm, `$1` the first component.
The first rule that is for a principal counts. Source: Kafka KerberosShortNamer, KerberosRule, KerberosName.
"""

import re
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.security.java_patterns import JavaReplacement, java_pattern, java_replacement
from cluster.security.mapping import NAME_LENGTH_MAX

SETTING: Final = "sasl.kerberos.principal.to.local.rules"
DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"RULE:\[(?P<count>[0-9]{1,9}):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@\\]*)(?:/(?P<second>[^/@\\]*))?@(?P<realm>[^/@\\]*)", re.DOTALL)
_NOT_SIMPLE: Final = re.compile(r"[/@]")


class _Principal(Struct, frozen=True):
    """Its realm, and then its components."""

    parts: tuple[str, ...]

    @property
    def realm(self) -> str:
        return self.parts[0]


class KerberosRule(Struct, frozen=True):
    """One rule. `components` None: DEFAULT, for principals of the own realm.

    `format`: what is made from the parts of a principal. `match` None: it is for all of them. `replaces_all`: whether
    the replacement takes every match. `case`: L, U or nothing.
    """

    text: str
    components: int | None = None
    format: str = ""
    match: re.Pattern[str] | None = None
    replacement: JavaReplacement | None = None
    replaces_all: bool = False
    case: str = ""

    def apply(self, principal: _Principal, own_realm: str) -> str | None:
        """The name of the user; None if the rule is for other principals. Raises ConfigError for one with / or @."""
        if self.components is None:
            return principal.parts[1] if principal.realm == own_realm else None
        if self.components != len(principal.parts) - 1:
            return None
        name = _PARAMETER.sub(lambda found: principal.parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.replacement is not None:
            name = self.replacement.of_all(name) if self.replaces_all else self.replacement.of_first(name)
        if _NOT_SIMPLE.search(name):
            raise ConfigError([f"{SETTING}: {self.text} makes {name!r} of it, which has a / or an @"])
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class KerberosRules(Struct, frozen=True):
    """The rules of a listener, in their order."""

    rules: tuple[KerberosRule, ...] = (KerberosRule(DEFAULT),)

    @property
    def text(self) -> str:
        """The rules as they stand in the settings."""
        return ",".join(rule.text for rule in self.rules)

    def user_of(self, principal: str, own_realm: str) -> str:
        """The user of a principal, such as `kafka/broker-1.example@EXAMPLE`. `own_realm`: Kerberos' default realm.

        Raises ConfigError if it is malformed, or no rule makes a name of it.
        """
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise ConfigError([f"principal {principal!r}: is not NAME@REALM or NAME/HOST@REALM"])
        components = [found["first"]] if found["second"] is None else [found["first"], found["second"]]
        parsed = _Principal((found["realm"], *components))
        try:
            name = next((name for rule in self.rules if (name := rule.apply(parsed, own_realm)) is not None), None)
        except ConfigError as error:
            raise ConfigError([f"principal {principal!r}: {line}" for line in error.errors]) from error
        if name is None:
            why = f"no rule of {SETTING} is for it: {self.text}, realm {own_realm!r}"
            raise ConfigError([f"principal {principal!r}: {why}"])
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            why = f"{SETTING} make a name of {len(name)} characters of it: 1 to {NAME_LENGTH_MAX} are allowed"
            raise ConfigError([f"principal {principal!r}: {why}"])
        return name


def parse_kerberos_rules(text: str) -> KerberosRules:
    """Parse the setting: rules with commas between them, which Kafka allows nowhere else in them. Raises ConfigError
    that quotes the rule.
    """
    return KerberosRules(tuple(_rule(part.strip()) for part in text.split(",")))


def _rule(text: str) -> KerberosRule:
    if text == DEFAULT:
        return KerberosRule(text)
    found = _RULE.fullmatch(text)
    if found is None:
        what = "is neither DEFAULT nor RULE:[n:format](pattern)s/pattern/replacement/g/L, without commas"
        raise ConfigError([f"{text!r}: {what}"])
    count = int(found["count"])
    for parameter in _PARAMETER.findall(found["format"]):
        # With one or two components; a rule for any other number is for no principal.
        if not parameter or int(parameter) > count:
            raise ConfigError([f"{text!r}: ${parameter} is not one of $0 to ${count}"])
    try:
        match = None if found["match"] is None else java_pattern(found["match"])
        replacement = None
        if found["pattern"] is not None:
            replacement = java_replacement(java_pattern(found["pattern"]), found["replacement"], keeps_unknown=False)
    except ConfigError as error:
        raise ConfigError([f"{text!r}: {line}" for line in error.errors]) from error
    return KerberosRule(text, count, found["format"], match, replacement, bool(found["all"]), found["case"] or "")
