"""Reads ZooKeeper credentials from a JAAS file, in the format used with Kafka.

Source: Kafka's documentation of ZooKeeper authentication.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

from cluster.sasl.jaas import tokens_of, unquoted
from cluster.tls.secret import Secret

_OF_BROKERS: Final = "KafkaServer"
_KERBEROS: Final = "Krb5LoginModule"
_MODULE: Final = "{"
"""Where the name of the first login module stands among the options of a section: no option has this name."""


class Scheme(Enum):
    """Names the authentication scheme."""

    SASL = "sasl"
    """SASL with DIGEST-MD5, as in Kafka: the server knows its users and refuses everyone else."""
    DIGEST = "digest"
    """ZooKeeper's `digest`: needs no server configuration; whoever has user name and password is that identity."""


class Credentials(Struct, frozen=True):
    """Holds the user and password of a process, and the authentication scheme."""

    scheme: Scheme
    username: str
    password: Secret


def parse_login(text: str, section: str, scheme: Scheme) -> Credentials:
    """Read the user and password in one section of a JAAS file. Raises ValueError; its text never quotes the file."""
    sections = _sections(text)
    if section not in sections:
        raise ValueError(f"has no section {section}")
    options = sections[section]
    if (module := options.get(_MODULE, "")).endswith(_KERBEROS):
        raise ValueError(
            f"section {section} has {module}: klamm does not speak Kerberos to ZooKeeper; give it a DigestLoginModule "
            "of the same rights, or a certificate by zookeeper.ssl.*"
        )
    for option in ("username", "password"):
        if not options.get(option):
            raise ValueError(f"section {section} has no {option}")
    return Credentials(scheme, options["username"], Secret(options["password"]))


def names_brokers_only(text: str, section: str) -> bool:
    """Whether a JAAS file has a section with the credentials of brokers, and not this one."""
    sections = _sections(text)
    return section not in sections and any(name.endswith(_OF_BROKERS) for name in sections)


def _sections(text: str) -> dict[str, dict[str, str]]:
    """Parse the options by section; if several login modules of a section have an option, the first one counts."""
    tokens = ["", *tokens_of(text), ""]
    sections: dict[str, dict[str, str]] = {}
    options: dict[str, str] = {}
    for position, token in enumerate(tokens):
        if token == "{":  # noqa: S105 - the name of a kind.
            options = sections.setdefault(tokens[position - 1], {})
            options.setdefault(_MODULE, tokens[position + 1])
        elif token == "=":  # noqa: S105 - the name of a kind.
            options.setdefault(tokens[position - 1], unquoted(tokens[position + 1]))
    return sections
