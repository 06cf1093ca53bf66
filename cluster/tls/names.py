"""The names in a certificate that a handshake has verified, as gRPC has them for its calls, and in Java's form.

Rules of Kafka and owners of znodes have names as Java writes them, so both kinds of listeners do.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from cluster.model.errors import ConfigError

_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java decodes as UTF-8."""
_BLANKS: Final = " \r"
"""What Java escapes at both ends of a value."""
_ESCAPED: Final = {ord(character): f"\\{character}" for character in ',=+<>#;"\\'} | {0: "\\00"}


def distinguished_name(name: x509.Name) -> str:
    """Write a distinguished name as Java does, the last of its parts first.

    Attributes without a keyword are an OID and the value's encoding in hexadecimal digits, as that of an e-mail
    address is. Source: X500Principal.getName, AVA.toRFC2253String.
    """
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    # A name is a sequence of sets of sequences, here of one each, and the last has an OID before the value.
    inner = _content(_content(_content(x509.Name([attribute]).public_bytes())))
    value = inner[2 + inner[1] :]
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or value[0] not in _STRINGS:
        return f"{keyword or attribute.oid.dotted_string}=#{value.hex()}"
    return f"{keyword}={_escaped(_content(value).decode(errors='replace'))}"


def _content(der: bytes) -> bytes:
    """The content of an element that nothing follows."""
    length = der[1]
    return der[2 + (length & 0x7F if length & 0x80 else 0) :]


def _escaped(text: str) -> str:
    inner = text.strip(_BLANKS)
    begin = len(text) - len(text.lstrip(_BLANKS))
    before, after = text[:begin], text[begin + len(inner) :]
    return "".join(f"\\{blank}" for blank in before) + inner.translate(_ESCAPED) + "".join(f"\\{b}" for b in after)


def authenticated_names(der: bytes) -> dict[str, list[bytes]]:
    """Read the distinguished name and the URIs of a certificate in DER form, under the keys of gRPC's `auth_context`.

    Raises ConfigError for a certificate with a name that is none.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        return {
            "x509_subject": [distinguished_name(certificate.subject).encode()],
            "peer_uri": [uri.encode() for uri in _uris(certificate)],
        }
    except (ValueError, TypeError) as error:
        raise ConfigError([f"certificate: its names cannot be read: {error}"]) from error


def _uris(certificate: x509.Certificate) -> Iterator[str]:
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from others.get_values_for_type(x509.UniformResourceIdentifier)


@lru_cache(maxsize=1024)
def subject_of(pem: bytes) -> str:
    """Read the distinguished name of a certificate in PEM form; each is asked for at every call. Raises ConfigError."""
    try:
        return distinguished_name(x509.load_pem_x509_certificate(pem).subject)
    except (ValueError, TypeError) as error:
        raise ConfigError([f"certificate: its names cannot be read: {error}"]) from error
