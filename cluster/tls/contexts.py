"""Contexts for Python's own TLS sockets: Kafka listeners, brokers, ZooKeeper, metrics."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Final

from cluster.model.errors import ConfigError
from cluster.tls.material import Material, load_material
from cluster.tls.own_certificate import OwnCertificate
from cluster.tls.settings import PROTOCOLS, TlsSettings, contradictions

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(settings: TlsSettings, material: Material | None = None) -> ssl.SSLContext:
    """Make the context of a listener. `material`: what the settings name, if it was read. Raises ConfigError that names
    the setting.
    """
    if errors := [*contradictions(settings), *lacks_of_server(settings)]:
        raise ConfigError(errors)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    # Otherwise a client of TLS 1.2 could demand handshake after handshake on one connection, with an older OpenSSL.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load(context, settings, load_material(settings) if material is None else material)
    return context


def lacks_of_server(settings: TlsSettings) -> list[str]:
    """Say what a listener needs and the settings do not name."""
    errors = []
    if not settings.has_keystore:
        errors.append(
            f"{settings.key('keystore_location')}: None: an SSL listener needs a private key and its certificate"
        )
    if settings.client_auth != "none" and not settings.has_truststore:
        errors.append(
            f"{settings.key('truststore_location')}: None: {settings.key('client_auth')}={settings.client_auth} needs "
            "the certificates of the authorities that clients are certified by"
        )
    return errors


def client_context(settings: TlsSettings, material: Material | None = None) -> ssl.SSLContext:
    """Make the context of connections to servers. It trusts what this machine trusts unless there is a truststore.
    Raises ConfigError.
    """
    if errors := contradictions(settings):
        raise ConfigError(errors)
    loaded = load_material(settings) if material is None else material
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_names
    if loaded.roots is None:
        context.load_default_certs()
    _load(context, settings, loaded)
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings, material: Material) -> None:
    enabled = [name for name in PROTOCOLS if name in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = _VERSIONS[enabled[0]], _VERSIONS[enabled[-1]]
    if material.roots is not None:
        context.load_verify_locations(cadata=material.roots.decode())
    if material.own is not None:
        with _as_file(material.own) as path:
            context.load_cert_chain(path)


@contextmanager
def _as_file(own: OwnCertificate) -> Iterator[str]:
    """Lend key and certificates as a file, which `ssl` insists on: in memory where the system can, else one that only
    its owner reads.
    """
    content = own.key.reveal().encode() + own.chain
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("klamm-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with NamedTemporaryFile(prefix="klamm-tls-") as file:
        file.write(content)
        file.flush()
        yield file.name
