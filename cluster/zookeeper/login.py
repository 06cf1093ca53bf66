"""Reads ZooKeeper credentials from a JAAS file, in the format used with Kafka.

Source: Kafka's documentation of ZooKeeper authentication.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from cluster.sasl.jaas import tokens_of, unquoted
from cluster.sasl.kerberos import KerberosLogin
from cluster.tls.secret import Secret

_OF_BROKERS: Final = "KafkaServer"
_KERBEROS: Final = "Krb5LoginModule"
_MODULE: Final = "{"
"""Where the name of the first login module stands among the options of a section: no option has this name."""
_SERVICE: Final = "zookeeper"
"""The first component of the servers' principals, by default, as in ZooKeeper's client."""


class Scheme(Enum):
    """Names the authentication scheme."""

    SASL = "sasl"
    """SASL with DIGEST-MD5 or Kerberos, as in Kafka: the server knows its users and refuses everyone else."""
    DIGEST = "digest"
    """ZooKeeper's `digest`: needs no server configuration; whoever has user name and password is that identity."""


class Credentials(Struct, frozen=True):
    """Holds the user and password of a process, and the authentication scheme. `kerberos`: with what it proves who it
    is instead of a password.
    """

    scheme: Scheme
    username: str
    password: Secret
    kerberos: KerberosLogin | None = None


def parse_login(text: str, section: str, scheme: Scheme) -> Credentials:
    """Read the user and password, or the principal and keytab, in one section of a JAAS file. Raises ValueError; its
    text never quotes the file.
    """
    sections = _sections(text)
    if section not in sections:
        raise ValueError(f"has no section {section}")
    options = sections[section]
    if options.get(_MODULE, "").endswith(_KERBEROS):
        return _kerberos_in(options, section, scheme)
    for option in ("username", "password"):
        if not options.get(option):
            raise ValueError(f"section {section} has no {option}")
    return Credentials(scheme, options["username"], Secret(options["password"]))


def _kerberos_in(options: Mapping[str, str], section: str, scheme: Scheme) -> Credentials:
    if scheme is not Scheme.SASL:
        raise ValueError(f"section {section} is of Kerberos, which klamm.zookeeper.auth.scheme={scheme.value} is not")
    if options.get("useKeyTab", "").lower() != "true":
        raise ValueError(f"section {section} has no useKeyTab=true, which a process needs whose tickets are renewed")
    for option in ("keyTab", "principal"):
        if not options.get(option):
            raise ValueError(f"section {section} has no {option}")
    keytab = options["keyTab"].removeprefix("FILE:")
    login = KerberosLogin(options["principal"], keytab, _SERVICE, setting=f"section {section}")
    return Credentials(scheme, options["principal"], Secret(""), login)


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
