"""Which settings hold secrets: their values are never shown, and are not taken from a command line."""

from typing import Final

_ENDS: Final = (
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "sasl.jaas.config",
)
WHY_NOT_TYPED: Final = (
    "is a secret, and every user of this machine sees command lines: put it into the configuration file of the node or "
    "into its environment (KLAMM_SETTINGS)"
)


def is_secret_key(key: str) -> bool:
    """Whether a key of Kafka's or klamm's, with or without a prefix, has a secret for its value."""
    return key.endswith(_ENDS)
