"""SASL of one listener: which mechanisms there are, and what users are checked against."""

from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.sasl.bearer import BearerRules, BearerServerExchange, Keys, parse_keys
from cluster.sasl.followed_files import FollowedFile
from cluster.sasl.gssapi import GssapiServerExchange
from cluster.sasl.kerberos import KerberosLogin, begin_as_server, check_keytab, own_realm
from cluster.sasl.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, ServerExchange
from cluster.sasl.plain import Passwords, PlainServerExchange, parse_passwords
from cluster.sasl.scram import Decoys, ScramCredential, ScramServerExchange
from cluster.security.kerberos_names import KerberosRules

PASSWORDS_SETTING = "klamm.sasl.plain.users.file"
KEYS_SETTING = "sasl.oauthbearer.jwks.endpoint.url"


class ScramDirectory(Protocol):
    """Knows the SCRAM credentials of users."""

    @property
    def is_loaded(self) -> bool:
        """Whether they have been read; before that nobody is refused."""

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of a user for a mechanism; None for a user without one."""


_NAMED: Final = 40
"""As many characters of an unknown mechanism are in the message."""


class ListenerSasl(Struct, frozen=True):
    """The settings of a listener with SASL.

    `session_ms`: for how long a user is authenticated, at most. `password_file`: for PLAIN; `key_file` and `bearer`:
    for OAUTHBEARER. `allows_anonymous`: whether calls of nobody are taken, as those of ANONYMOUS. `plain_users`: those
    of PLAIN that are in no file, or not only. `kerberos`: with which principal GSSAPI is answered; `kerberos_rules`:
    how those of clients become users.
    """

    mechanisms: tuple[str, ...]
    session_ms: int
    password_file: str | None = None
    key_file: str | None = None
    bearer: BearerRules | None = None
    allows_anonymous: bool = False
    plain_users: Passwords = {}
    kerberos: KerberosLogin | None = None
    kerberos_rules: KerberosRules = KerberosRules()


class ServerMechanisms:
    """Makes the server's side of exchanges at one listener."""

    def __init__(self, settings: ListenerSasl, users: ScramDirectory) -> None:
        """Read no file yet: `check` does."""
        self.settings, self._users, self._decoys = settings, users, Decoys()
        self._passwords: FollowedFile[Passwords] | None = None
        self._keys: FollowedFile[Keys] | None = None
        if settings.password_file is not None:
            self._passwords = FollowedFile(
                PASSWORDS_SETTING,
                settings.password_file,
                parse_passwords,
                holds="passwords",
            )
        if settings.key_file is not None:
            self._keys = FollowedFile(KEYS_SETTING, settings.key_file, parse_keys, holds="")

    def check(self) -> None:
        """Read the files. Raises ConfigError that names the settings."""
        errors: list[str] = []
        if self.settings.kerberos is not None:
            try:
                check_keytab(self.settings.kerberos)
            except ConfigError as error:
                errors += error.errors
        for file in (self._passwords, self._keys):
            try:
                if file is not None:
                    file.current()
            except ConfigError as error:
                errors += error.errors
        if errors:
            raise ConfigError(errors)

    def _known_passwords(self) -> Passwords:
        in_file = {} if self._passwords is None else self._passwords.current()
        return {**self.settings.plain_users, **in_file}

    def _user_of(self, principal: str) -> str:
        return self.settings.kerberos_rules.user_of(principal, own_realm())

    def begin(self, mechanism: str) -> ServerExchange:
        """Begin an exchange. Raises ApiError for a mechanism that the listener lacks, and while users are not known."""
        if mechanism not in self.settings.mechanisms:
            raise ApiError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"the listener has no {mechanism[:_NAMED]}, only {', '.join(self.settings.mechanisms)}"
                " (sasl.enabled.mechanisms); clients name theirs by sasl.mechanism",
                field="mechanism",
                value=mechanism[:_NAMED],
            )
        if mechanism == PLAIN:
            return PlainServerExchange(self._known_passwords)
        if mechanism == OAUTHBEARER:
            assert self._keys is not None, "settings were checked"
            assert self.settings.bearer is not None, "settings were checked"
            return BearerServerExchange(self.settings.bearer, self._keys.current)
        if mechanism == GSSAPI:
            assert self.settings.kerberos is not None, "settings were checked"
            return GssapiServerExchange(partial(begin_as_server, self.settings.kerberos), self._user_of)
        if not self._users.is_loaded:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the users have not been read from ZooKeeper yet; try again")
        return ScramServerExchange(mechanism, partial(self._users.credential, mechanism), self._decoys)
