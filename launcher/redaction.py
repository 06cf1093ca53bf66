"""Removes secrets from text that leaves the machine: values of keys that are named like secrets, and logins in URLs.

A value that is nothing but a secret, without a key beside it, cannot be recognised: files of that kind are not read at
all (`launcher.bundle`).
"""

import re
from typing import Any, Final

REDACTED: Final = "[removed]"
_SECRET: Final = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|webhook|jaas"
    r"|(?:private|api|access|account)[._-]?key)"
)
_NAME: Final = re.compile(_SECRET, re.IGNORECASE)
# Words are taken whole, from their beginning and for good, so that the time grows with the length of the text alone.
_ASSIGNED: Final = re.compile(
    # A name in quotes or not, = or :, and a value: quoted, with escapes, or up to a blank or a separator.
    rf"""(?P<name>(?P<quote>\\?["']?)(?<![\w.\-])(?=[\w.\-]*?{_SECRET})[\w.\-]++(?P=quote))(?P<sep>\s*+[=:]\s*+)"""
    r"""(?P<value>\\"(?:[^"\\]|\\[^"])*+\\"|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^\s,;}\]]++)""",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"""(?P<scheme>(?<![a-z0-9+.\-])[a-z0-9+.\-]++://)[^/\s"?#]*@""", re.IGNORECASE)
_BEARER: Final = re.compile(r"\b(?P<kind>Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE)
_BLOCK: Final = re.compile(r"-----BEGIN (?P<what>[A-Z ]*PRIVATE KEY)-----.*?(-----END (?P=what)-----|\Z)", re.DOTALL)


def redact(text: str) -> str:
    """The text with each secret replaced."""
    text = _BLOCK.sub(REDACTED, text)
    text = _ASSIGNED.sub(_without_value, text)
    text = _LOGIN.sub(rf"\g<scheme>{REDACTED}@", text)
    return _BEARER.sub(rf"\g<kind> {REDACTED}", text)


def redact_document(document: Any) -> Any:
    """A document of JSON or TOML with each secret replaced, whatever the type of its value.

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
