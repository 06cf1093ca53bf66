"""The names in a certificate that a handshake has verified, as gRPC has them for its calls."""

from cryptography import x509


def authenticated_names(der: bytes) -> dict[str, list[bytes]]:
    """Read the distinguished name and the URIs of a certificate in DER form, under the keys of gRPC's `auth_context`.

    Source: X500Principal.getName for the form of the name.
    """
    certificate = x509.load_der_x509_certificate(der)
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = others.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    return {
        "x509_subject": [certificate.subject.rfc4514_string().encode()],
        "peer_uri": [uri.encode() for uri in uris],
    }
