"""Finds out who makes a call: from the certificate that TLS has verified, and from nothing that the caller says.

At a plaintext listener everyone is ANONYMOUS.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote

from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.requests.context import PeerCertificate
from cluster.rpc.transport_security import peer_certificate
from cluster.security.identities import Identity, node_named_by
from cluster.security.mapping import PrincipalMapping
from cluster.security.principals import ANONYMOUS


class Caller(NamedTuple):
    """Who makes a call, and the certificate that was shown, if any."""

    identity: Identity
    certificate: PeerCertificate | None = None


class Callers:
    """Identifies the callers of one listener. `is_secured`: whether it has TLS."""

    def __init__(self, *, is_secured: bool = False, mapping: PrincipalMapping | None = None) -> None:
        self.is_secured = is_secured
        self._mapping = PrincipalMapping() if mapping is None else mapping

    def identify(self, peer: str, authenticated: Mapping[str, Iterable[bytes]]) -> Caller:
        """Identify a caller by gRPC's name of the peer, and by `auth_context` of the call.

        It is asked for each call: a proxy and the library's own pools make a connection no one's in particular. Raises
        ApiError(SASL_AUTHENTICATION_FAILED) for a certificate that is no identity.
        """
        host = host_of(peer)
        certificate = peer_certificate(authenticated) if self.is_secured else None
        if certificate is None:
            return Caller(Identity(ANONYMOUS, host))
        try:
            principal, node = self._mapping.principal_of(certificate.subject), node_named_by(certificate.uris)
        except ConfigError as error:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(error.errors)) from error
        return Caller(Identity(principal, host, node), certificate)


def host_of(peer: str) -> str:
    """The address in gRPC's name of a peer as Java writes it, and so as rules of Kafka name it; empty if it has none.

    For example `ipv6:%5B::1%5D:4711` is 0:0:0:0:0:0:0:1. Source: InetAddress.getHostAddress.
    """
    family, _, rest = peer.partition(":")
    if family not in ("ipv4", "ipv6"):
        return ""
    try:
        address = ip_address(unquote(rest).rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped) if address.ipv4_mapped is not None else _as_java(address)


def _as_java(address: IPv6Address) -> str:
    numbers = ":".join(f"{int(part, 16):x}" for part in IPv6Address(int(address)).exploded.split(":"))
    return f"{numbers}%{address.scope_id}" if address.scope_id else numbers
