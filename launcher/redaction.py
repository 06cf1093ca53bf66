"""Removes secrets from text that leaves the machine: values of keys and options that are named like secrets, logins in
URLs, and the paths of webhooks, which are secrets themselves.

A value that is nothing but a secret, without a key beside it, cannot be recognised: files of that kind are not read at
all (`launcher.bundle`).
"""

import re
from typing import Any, Final

REDACTED: Final = "[removed]"
_SECRET: Final = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|webhook|jaas"  # noqa: S105 - the name of a kind.
    r"|(?:private|api|access|account|routing|service|integration|signing|encryption)[._-]?key)"
)
_NAME: Final = re.compile(_SECRET, re.IGNORECASE)
# In quotes, with escapes, or else up to a blank: a password may have any other character in it.
_VALUE: Final = r"""(?:\\"(?:[^"\\]|\\[^"])*+\\"|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|\S++)"""
# Words are taken whole, from their beginning and for good, so that the time grows with the length of the text alone.
_ASSIGNED: Final = re.compile(
    # A name in quotes or not, = or :, and a value.
    rf"""(?P<name>(?P<quote>\\?["']?)(?<![\w.\-])(?=[\w.\-]*?{_SECRET})[\w.\-]++(?P=quote))(?P<sep>\s*+[=:]\s*+){_VALUE}""",
    re.IGNORECASE,
)
_USER: Final = re.compile(
    # Of a login module: user_NAME="password", as Kafka's PLAIN and ZooKeeper have it.
    rf"""(?P<name>(?<![\w.\-])user_[\w.\-]++)(?P<sep>\s*+=\s*+){_VALUE}""",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(
    # Of a command line, or of a list that is one: --password x, "--password", "x"
    rf"""(?P<name>(?P<quote>["']?)(?<![\w.\-])--(?=[\w.\-]*?{_SECRET})[\w.\-]++(?P=quote))(?P<sep>\s*+,\s*+|[^\S\n]++){_VALUE}""",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"""(?P<scheme>(?<![a-z0-9+.\-])[a-z0-9+.\-]++://)[^/\s"?#]*@""", re.IGNORECASE)
_URL: Final = re.compile(
    r"""(?<![a-z0-9+.\-])(?P<host>[a-z0-9+.\-]++://[^/\s"'<>?#]*+)(?P<rest>[^\s"'<>]*+)""", re.IGNORECASE
)
_QUERY_KEY: Final = re.compile(r"(?P<name>[?&](?:key|sig|signature|code)=)[^&#]*+", re.IGNORECASE)
_BEARER: Final = re.compile(r"\b(?P<kind>Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE)
_BLOCK: Final = re.compile(r"-----BEGIN (?P<what>[A-Z ]*PRIVATE KEY)-----.*?(-----END (?P=what)-----|\Z)", re.DOTALL)


def redact(text: str) -> str:
    """Replace each secret in a text."""
    text = _BLOCK.sub(REDACTED, text)
    text = _ASSIGNED.sub(_without_value, text)
    text = _USER.sub(_without_value, text)
    text = _OPTION.sub(_without_value, text)
    text = _LOGIN.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _URL.sub(_without_path, text)
    return _BEARER.sub(rf"\g<kind> {REDACTED}", text)


def redact_document(document: Any) -> Any:
    """Replace each secret in a document of JSON or TOML, whatever the type of its value.

    Objects that describe a config, {"name": …, "value": …}, or a change of one, are of the config's name.
    """
    if isinstance(document, list):
        return [redact_document(item) for item in document]
    if not isinstance(document, dict):
        return redact(document) if isinstance(document, str) else document
    secret_config = any(_is_secret(document.get(key)) for key in ("name", "config", "key"))
    return {
        key: REDACTED
        if (_is_secret(key) and value not in (None, "", [], {})) or (secret_config and key in _VALUES and value)
        else redact_document(value)
        for key, value in document.items()
    }


_VALUES: Final = frozenset({"value", "before", "after", "default"})


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and _NAME.search(name) is not None


def _without_value(match: re.Match[str]) -> str:
    return f"{match['name']}{match['sep']}{REDACTED}"


def _without_path(match: re.Match[str]) -> str:
    if "hook" in match[0].lower():
        return f"{match['host']}/{REDACTED}"
    return match["host"] + _QUERY_KEY.sub(rf"\g<name>{REDACTED}", match["rest"])
