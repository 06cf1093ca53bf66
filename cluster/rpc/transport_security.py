"""TLS of gRPC: the credentials of servers and channels, from material that may be replaced at any time.

gRPC keeps what it was given, so servers ask at each handshake, and clients make a new channel. It speaks TLS 1.2 and
1.3, and can demand certificates from all clients of a port or from none.
"""

import hashlib
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import grpc

from cluster.model.broker import Endpoint
from cluster.requests.context import PeerCertificate
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.material import Material, why_refused

_WITH_TLS = frozenset({"SSL", "SASL_SSL"})


def server_credentials(tls: ListenerTls) -> grpc.ServerCredentials:
    """Make the credentials of a port, which follow the material."""
    handed = tls.material.generation

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        # Called at each handshake, on a thread of gRPC's: it must neither block nor read files.
        nonlocal handed
        tls.on_handshake()
        now = tls.material.generation
        if now == handed:
            return None
        handed = now
        return _configuration(tls.material.current)

    first = _configuration(tls.material.current)
    # None, which the stubs do not know, leaves what was handed over before in force.
    fetcher: Any = fetch
    return grpc.dynamic_ssl_server_credentials(first, fetcher, require_client_authentication=tls.requires_certificates)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    own = material.own
    assert own is not None, "a listener has a certificate: its settings were checked"
    return grpc.ssl_server_certificate_configuration([(own.key.reveal().encode(), own.chain)], material.roots)


def peer_certificate(
    authenticated: Mapping[str, Iterable[bytes]], *, with_fingerprint: bool = False
) -> PeerCertificate | None:
    """Read from a call's `auth_context` the certificate that the handshake verified; None if the caller showed none.

    Only URIs are taken for identities: gRPC's own `peer_identity` mixes them with host names. Its form of the
    distinguished name differs from Kafka's, so that is read from the certificate itself. Raises ConfigError.
    """
    subject = next(iter(authenticated.get("x509_subject", ())), None)
    if subject is None:
        return None
    from cluster.tls.names import subject_of  # noqa: PLC0415 - cryptography takes 8 MiB of memory; only TLS needs it.

    pem = next(iter(authenticated.get("x509_pem_cert", ())), None)
    name = subject.decode(errors="replace") if pem is None else subject_of(pem)
    uris = tuple(uri.decode(errors="replace") for uri in authenticated.get("peer_uri", ()))
    fingerprint = _fingerprint(authenticated) if with_fingerprint else ""
    return PeerCertificate(name, uris, fingerprint)


def _fingerprint(authenticated: Mapping[str, Iterable[bytes]]) -> str:
    pem = next(iter(authenticated["x509_pem_cert"]))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()


class ChannelSecurity:
    """Says which peers are called under TLS, and makes the credentials of their channels.

    `secured_listeners`: the names of listeners at which every peer is called under TLS, whatever it has registered;
    elsewhere the peer's registration decides. None: every peer.
    """

    def __init__(self, material: LiveMaterial, secured_listeners: frozenset[str] | None = None) -> None:
        self._material, self._secured_listeners = material, secured_listeners
        self._made: tuple[int, grpc.ChannelCredentials] | None = None

    @property
    def generation(self) -> int:
        """Changes when channels are to be replaced."""
        return self._material.generation

    def secures(self, endpoint: Endpoint) -> bool:
        """Whether a peer is called under TLS at this endpoint."""
        return (
            self._secured_listeners is None
            or endpoint.listener in self._secured_listeners
            or endpoint.security_protocol in _WITH_TLS
        )

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials of a new channel."""
        # The number first: if the files are replaced in between, the channel is replaced once more.
        generation = self._material.generation
        if self._made is None or self._made[0] != generation:
            material = self._material.current
            key = None if material.own is None else material.own.key.reveal().encode()
            chain = None if material.own is None else material.own.chain
            self._made = generation, grpc.ssl_channel_credentials(material.roots, key, chain)
        return self._made[1]

    def why_closed(self) -> tuple[str, bool]:
        """Guess why a peer closed a connection in the handshake. Returns the reason, and whether it is certain."""
        own = self._material.current.own
        return why_refused(own, "ssl.keystore.location"), own is not None and own.is_expired
