"""Says which setting is about a peer's certificate that is not accepted."""

from typing import Final

_UNKNOWN_AUTHORITY: Final = (
    "issuer certificate",
    "self signed",
    "self-signed",
    "first certificate",
    "signature failure",
)
"""What OpenSSL and BoringSSL say where no authority that is trusted has certified the peer."""


def why_not_accepted(reason: str, setting: str = "ssl.truststore.location") -> str:
    """Complete the reason of the TLS library with the `setting` that names the authorities, where none of them has
    certified the peer.
    """
    if any(text in reason for text in _UNKNOWN_AUTHORITY):
        return f"{reason}: no authority in {setting} has certified it"
    return reason
