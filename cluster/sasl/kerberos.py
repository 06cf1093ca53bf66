"""Kerberos for GSSAPI, by the library of MIT: keys in files, tickets in memory or in a user's cache.

Python's `gssapi` is an extra of klamm, because it needs that library. What it says of a failure is followed by what to
do. Everything here may block; what asks a key distribution center (KDC) may take a minute, if none answers.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.sasl.gssapi import SecurityContextError
from cluster.tls.guarded_files import read_guarded

_KRB5_CODES: Final = -1765328384
"""Where the codes of Kerberos begin; what follows is their offsets. Source: krb5_err.et."""
_CLIENT_UNKNOWN, _SERVER_UNKNOWN, _PREAUTH_FAILED, _BAD_INTEGRITY = 6, 7, 24, 31
_EXPIRED, _NOT_US, _SKEW, _BAD_KEY_VERSION, _NO_KEY, _REALM_UNKNOWN, _UNREACHABLE = 32, 35, 37, 44, 45, 154, 156
_NO_CACHE: Final = 195
_ASK_AGAIN: Final = "the keytab has old keys: export it again from the KDC"
_KEYS_OF_SERVER: Final = (
    "the keytab of the login module lacks the keys of the principal that clients ask for: export them there"
)
_WHAT_TO_DO: Final = {
    _CLIENT_UNKNOWN: "correct the principal of the login module, or make it in the KDC",
    _SERVER_UNKNOWN: (
        "make it in the KDC, or correct sasl.kerberos.service.name; its host is the one that the other side is "
        "registered with, and what dns_canonicalize_hostname and rdns in krb5.conf make of it"
    ),
    _PREAUTH_FAILED: _ASK_AGAIN,
    _BAD_INTEGRITY: _ASK_AGAIN,
    _EXPIRED: "get a new ticket, or give a keytab",
    _NOT_US: _KEYS_OF_SERVER,
    _SKEW: "set the clocks of both machines, and of the KDC, by NTP",
    _BAD_KEY_VERSION: _KEYS_OF_SERVER,
    _NO_KEY: _KEYS_OF_SERVER,
    _REALM_UNKNOWN: "name the KDCs of the realm in krb5.conf, or another file in KRB5_CONFIG",
    _UNREACHABLE: "start the KDC, or correct its address in krb5.conf (or the file that KRB5_CONFIG names)",
    _NO_CACHE: "get a ticket with kinit, or give a keytab (useKeyTab=true keyTab=…)",
}


class KerberosLogin(Struct, frozen=True):
    """How a process proves who it is. `principal`: empty only with the cache of a user, for whoever that is.

    `keytab`: the file with the keys; None: the tickets are in `ticket_cache`, and if that is empty in the user's own
    one. `service`: the first component of the principals of servers. `setting`: where all of that stands.
    """

    principal: str
    keytab: str | None
    service: str = ""
    ticket_cache: str = ""
    setting: str = "sasl.jaas.config"


def check_keytab(login: KerberosLogin) -> None:
    """Look into the keytab, if there is one, without asking a KDC. Raises ConfigError."""
    library = _library()
    if login.keytab is None:
        return
    read_guarded(f"{login.setting}: keyTab", login.keytab, "keys")
    try:
        _keys(library, login)
    except library.exceptions.GSSError as error:
        raise ConfigError([f"{login.setting}: keyTab: {login.keytab}: {_text(error)}"]) from error


def own_realm() -> str:
    """The default realm of krb5.conf; empty if there is none."""
    library = _library()
    try:
        name = library.Name("x", library.NameType.kerberos_principal)
        return str(name.canonicalize(library.MechType.kerberos)).partition("@")[2]
    except library.exceptions.GSSError:
        return ""


def begin_as_client(login: KerberosLogin, host: str) -> "KerberosContext":
    """Begin the context of a client of the service at this host. Raises ConfigError."""
    library = _library()
    check_keytab(login)
    try:
        target = library.Name(f"{login.service}@{host}", library.NameType.hostbased_service)
        context = library.SecurityContext(
            name=target,
            creds=_tickets(library, login),
            mech=library.MechType.kerberos,
            # The server proves that it has the keys of its principal.
            flags=[library.RequirementFlag.mutual_authentication],
            usage="initiate",
        )
    except library.exceptions.GSSError as error:
        raise ConfigError([f"{login.setting}: {login.principal}: {_text(error)}"]) from error
    return KerberosContext(library, context)


def begin_as_server(login: KerberosLogin) -> "KerberosContext":
    """Begin the context of the server that the principal is. Raises ConfigError."""
    library = _library()
    check_keytab(login)
    return KerberosContext(library, library.SecurityContext(creds=_keys(library, login), usage="accept"))


class KerberosContext:
    """A security context of the library's."""

    def __init__(self, library: ModuleType, context: Any) -> None:
        self._error, self._context = library.exceptions.GSSError, context
        # Otherwise the library raises some errors only when something else is asked of the context.
        self._context.__DEFER_STEP_ERRORS__ = False

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise SecurityContextError(_text(error)) from error

    def step(self, token: bytes) -> bytes:
        with self._explained():
            return self._context.step(token or None) or b""

    @property
    def is_established(self) -> bool:
        return bool(self._context.complete)

    def wrap(self, message: bytes) -> bytes:
        with self._explained():
            return bytes(self._context.wrap(message, encrypt=False).message)

    def unwrap(self, message: bytes) -> bytes:
        with self._explained():
            return bytes(self._context.unwrap(message).message)

    @property
    def client(self) -> str:
        with self._explained():
            return str(self._context.initiator_name)

    @property
    def lifetime_s(self) -> float:
        with self._explained():
            return float(self._context.lifetime)


def _library() -> ModuleType:
    """Python's gssapi. Raises ConfigError where it, or the library that it needs, is not installed."""
    try:
        # An extra; and it loads slowly.
        import gssapi  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            ["GSSAPI: is not installed: install klamm with the extra 'kerberos' (pip install 'klamm[kerberos]')"]
        ) from error
    except (ImportError, OSError) as error:
        raise ConfigError(
            [
                f"GSSAPI: the library of Kerberos cannot be loaded ({error}): install that of MIT (Debian: "
                "libgssapi-krb5-2, Red Hat: krb5-libs)"
            ]
        ) from error
    found: ModuleType = gssapi
    return found


def _keys(library: ModuleType, login: KerberosLogin) -> Any:
    name = library.Name(login.principal, library.NameType.kerberos_principal)
    return library.Credentials(
        usage="accept", name=name, mechs=[library.MechType.kerberos], store={"keytab": f"FILE:{login.keytab}"}
    )


def _tickets(library: ModuleType, login: KerberosLogin) -> Any:
    """The tickets of a client. With a keytab the library asks for new ones when half of their time is over, and keeps
    those that it has if no KDC answers then.
    """
    name = library.Name(login.principal, library.NameType.kerberos_principal) if login.principal else None
    store: dict[str, str] = {}
    if login.keytab is not None:
        # One for all connections, or each would ask for a ticket of its own.
        digest = hashlib.sha256(f"{login.principal}\0{login.keytab}".encode()).hexdigest()
        store = {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:klamm-{digest}"}
    elif login.ticket_cache:
        store = {"ccache": login.ticket_cache}
    return library.Credentials(usage="initiate", name=name, mechs=[library.MechType.kerberos], store=store or None)


def _text(error: Any) -> str:
    """Say what the library reports of a failure in its mechanism, and what to do about it."""
    signed = error.min_code - (1 << 32) if error.min_code >> 31 else error.min_code
    what_to_do = _WHAT_TO_DO.get(signed - _KRB5_CODES)
    said = "; ".join(error.get_all_statuses(error.min_code, is_maj=False)) if error.min_code else str(error)
    return f"{said}: {what_to_do}" if what_to_do else said
