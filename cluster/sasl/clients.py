"""What a client proves its identity with: a user and a password, a token in a file, or a Kerberos principal."""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.sasl.kerberos import KerberosLogin, begin_as_client, check_keytab
from cluster.sasl.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, ClientExchange
from cluster.tls.guarded_files import read_guarded
from cluster.tls.secret import Secret

TOKEN_SETTING: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting.


class ClientCredentials(Struct, frozen=True):
    """A user with a password, the file with a token, or a Kerberos principal. `mechanism`: by which it is proven.

    `setting` and `mechanism_setting`: the names of the settings that say so, for messages.
    """

    mechanism: str
    user: str = ""
    password: Secret | None = None
    token_file: str | None = None
    setting: str = "sasl.jaas.config"
    mechanism_setting: str = "sasl.mechanism"
    kerberos: KerberosLogin | None = None

    @property
    def identity(self) -> str:
        """The user or principal, where it is known without a token, and the mechanism."""
        name = self.user if self.kerberos is None else self.kerberos.principal
        return f"{name or 'the owner of a token'} by {self.mechanism}"

    def begin(self, host: str = "") -> ClientExchange:
        """Begin an exchange. `host`: of the server, as clients name it; GSSAPI needs it. Raises ConfigError, if the
        file cannot be used. Blocks, but asks no network.
        """
        # The libraries load slowly; a command that asks nobody needs none.
        from cluster.sasl.bearer import TOKEN_BYTES_MAX, BearerClientExchange  # noqa: PLC0415
        from cluster.sasl.gssapi import GssapiClientExchange  # noqa: PLC0415
        from cluster.sasl.plain import PlainClientExchange  # noqa: PLC0415
        from cluster.sasl.scram import ScramClientExchange  # noqa: PLC0415

        if self.mechanism == OAUTHBEARER:
            assert self.token_file is not None, "settings were checked"
            token = read_guarded(TOKEN_SETTING, self.token_file, "a token")
            if len(token) > TOKEN_BYTES_MAX:
                raise ConfigError([f"{TOKEN_SETTING}: {self.token_file}: has more than {TOKEN_BYTES_MAX} bytes"])
            return BearerClientExchange(token.decode(errors="replace").strip())
        if self.mechanism == GSSAPI:
            assert self.kerberos is not None, "settings were checked"
            check_keytab(self.kerberos)
            return GssapiClientExchange(partial(begin_as_client, self.kerberos, host))
        assert self.password is not None, "settings were checked"
        if self.mechanism == PLAIN:
            return PlainClientExchange(self.user, self.password.reveal())
        return ScramClientExchange(self.mechanism, self.user, self.password.reveal())


ReadCredentials = Callable[[], ClientCredentials]
"""Reads the credentials at each authentication, so that a file that is replaced takes effect. It may block, and may
raise ConfigError.
"""
