"""What a process reports of its certificates: those that expire, files that cannot be used, clients that it refuses."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cluster.model.broker import NO_LEADER, BrokerId
from cluster.model.printable import counted
from cluster.requests.cluster import Finding
from cluster.tls.live import LiveMaterial
from cluster.tls.refusals import Refusal

EXPIRED_CERTIFICATE: Final = "expired_certificate"
EXPIRING_CERTIFICATE: Final = "expiring_certificate"
UNUSABLE_TLS_FILES: Final = "unusable_tls_files"
REFUSED_HANDSHAKES: Final = "refused_handshakes"
_S_PER_DAY: Final = 86_400
EXPIRES_SOON_DAYS: Final = 14
_SHARE: Final = 0.2
"""Certificates that live for hours are replaced late in their lives, and nothing is wrong with that."""
_SHOWN: Final = 10
_DOCUMENT: Final = "docs/security.md"


def certificate_findings(
    who: str, material: LiveMaterial, uses: Sequence[str], now_s: float, broker: BrokerId = NO_LEADER
) -> Iterator[Finding]:
    """Report a certificate that has expired or soon does, and files that are not in force. `uses`: what it is for."""
    own = material.current.own
    about = f"{who}: its certificate for {', '.join(uses)}"
    if material.rejected:
        why = "; ".join(material.rejected)
        state = "cannot be used, and what was read before stays in force"
        detail = f"{who}: {_files(material)} {state}: {why}: correct the files"
        yield Finding(UNUSABLE_TLS_FILES, detail, broker=broker)
    if own is None:
        return
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(own.not_after))
    replace = f"replace {_files(material, has_authorities=False)}; it is taken within ten seconds, without a restart"
    left_s = own.not_after - now_s
    if left_s <= 0:
        detail = f"{about}, {own.subject}, has expired at {when}: others refuse new connections: {replace}"
        yield Finding(EXPIRED_CERTIFICATE, detail, broker=broker)
    elif left_s < min(EXPIRES_SOON_DAYS * _S_PER_DAY, _SHARE * (own.not_after - own.not_before)):
        detail = f"{about}, {own.subject}, expires at {when}: {replace}"
        yield Finding(EXPIRING_CERTIFICATE, detail, broker=broker)


def _files(material: LiveMaterial, *, has_authorities: bool = True) -> str:
    settings = material.settings
    found = (settings.keystore_location, settings.truststore_location if has_authorities else None)
    return " and ".join(dict.fromkeys(file for file in found if file)) or settings.key("keystore_key")


def refusal_findings(who: str, refusals: Sequence[Refusal], broker: BrokerId = NO_LEADER) -> Iterator[Finding]:
    """Report who was refused, the latest ten, and how many besides."""
    for refusal in refusals[:_SHOWN]:
        since = time.strftime("%H:%M:%S UTC", time.gmtime(refusal.first_s))
        whom = f"{refusal.host}, since {since}, {counted(refusal.times, 'time')}: {refusal.why}"
        detail = f"{who}: listener {refusal.listener} refuses {whom}; see 'When a handshake is refused' in {_DOCUMENT}"
        yield Finding(REFUSED_HANDSHAKES, detail, broker=broker)
    if len(refusals) > _SHOWN:
        detail = f"{who}: {len(refusals) - _SHOWN} more hosts or reasons: its log has 'TLS handshake failed' for each"
        yield Finding(REFUSED_HANDSHAKES, detail, broker=broker)


def all_uses(labelled: Iterable[tuple[str, LiveMaterial]]) -> list[tuple[LiveMaterial, list[str]]]:
    """Put together what each material is for; the same files under two settings are one material."""
    found: list[tuple[LiveMaterial, list[str]]] = []
    for use, material in labelled:
        known = next((uses for of, uses in found if of is material or _locations(of) == _locations(material)), None)
        if known is None:
            found.append((material, [use]))
        else:
            known.append(use)
    return found


def _locations(material: LiveMaterial) -> tuple[str | None, ...] | int:
    settings = material.settings
    # Without a file the certificate is in the settings themselves.
    named = settings.keystore_location is not None
    return (settings.keystore_location, settings.truststore_location) if named else id(material)
