"""Finds out who makes a call: from the certificate that TLS has verified, or the token of a user who has authenticated,
and from nothing else that the caller says.

At a plaintext listener everyone is ANONYMOUS.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple
from urllib.parse import unquote

from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.requests.context import PeerCertificate
from cluster.rpc.authentication import ListenerAuthentication
from cluster.rpc.sessions import UserSession
from cluster.rpc.transport_security import peer_certificate
from cluster.security.identities import Identity, NodeName, node_named_by
from cluster.security.mapping import PrincipalMapping
from cluster.security.principals import ANONYMOUS, Principal

AUTHORIZATION_HEADER: Final = "authorization"
_BEARER: Final = "bearer "


class IdentifiedCaller(NamedTuple):
    """Who makes a call, and the certificate that was shown, if any. `until`: on the clock of the event loop, when its
    session ends; None without one.
    """

    identity: Identity
    certificate: PeerCertificate | None = None
    until: float | None = None


class CallerIdentifier:
    """Identifies the callers of one listener. `is_secured`: whether it has TLS; `sasl` None: it has no SASL.

    `knows_nodes`: whether a certificate may name a node of klamm. Where the brokers are Apache Kafka's none does: to
    those who sign the certificates of their clients, klamm's names mean nothing, so they must give no right.
    """

    def __init__(
        self,
        *,
        is_secured: bool = False,
        mapping: PrincipalMapping | None = None,
        sasl: ListenerAuthentication | None = None,
        knows_nodes: bool = True,
    ) -> None:
        self.is_secured, self._sasl, self._knows_nodes = is_secured, sasl, knows_nodes
        self._mapping = PrincipalMapping() if mapping is None else mapping

    def identify(
        self,
        peer: str,
        authenticated: Mapping[str, Iterable[bytes]],
        headers: Mapping[str, object],
        *,
        is_authenticating: bool = False,
    ) -> IdentifiedCaller:
        """Identify a caller by gRPC's name of the peer, `auth_context` of the call, and its metadata.

        It is asked for each call: a proxy and the library's own pools make a connection no one's in particular. With a
        token the user counts, and of the certificate only which node it names. `is_authenticating`: nobody needs to be
        known yet. Raises ApiError: SASL_AUTHENTICATION_FAILED for a certificate that is no identity,
        ILLEGAL_SASL_STATE for a token that does not count, or where one is needed.
        """
        host = host_of(peer)
        if not self.is_secured:
            return IdentifiedCaller(Identity(ANONYMOUS, host))
        certificate = self._certificate(authenticated)
        session = None if is_authenticating else self._session(certificate, headers)
        if certificate is None:
            principal = ANONYMOUS if session is None else session.principal
            return IdentifiedCaller(Identity(principal, host), None, None if session is None else session.expires_at)
        principal, node = self._named_by(certificate, session)
        until = None if session is None else session.expires_at
        return IdentifiedCaller(Identity(principal, host, node), certificate, until)

    def _certificate(self, authenticated: Mapping[str, Iterable[bytes]]) -> PeerCertificate | None:
        try:
            return peer_certificate(authenticated, with_fingerprint=self._sasl is not None)
        except ConfigError as error:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(error.errors)) from error

    def _session(self, certificate: PeerCertificate | None, headers: Mapping[str, object]) -> UserSession | None:
        if self._sasl is None:
            return None
        given = str(headers.get(AUTHORIZATION_HEADER, ""))
        if given.lower().startswith(_BEARER):
            fingerprint = "" if certificate is None else certificate.fingerprint
            return self._sasl.session(given[len(_BEARER) :].strip(), fingerprint)
        if certificate is None:
            self._sasl.check_anonymous()
        return None

    def _named_by(self, certificate: PeerCertificate, session: UserSession | None) -> tuple[Principal, NodeName | None]:
        try:
            named = node_named_by(certificate.uris)
            node = named if self._knows_nodes else None
            return (self._mapping.principal_of(certificate.subject) if session is None else session.principal), node
        except ConfigError as error:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(error.errors)) from error


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
