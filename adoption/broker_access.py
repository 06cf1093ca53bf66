"""How brokers are reached from where `klamm adopt` runs, as `--command-config` says."""

import ssl
from typing import NamedTuple

from cluster.model.broker import Endpoint
from cluster.sasl.clients import ReadCredentials


class BrokerAccess(NamedTuple):
    """`tls` None: listeners with TLS are not asked. `login` None: nor are those with SASL.

    `sends_in_clear`: whether the login is for listeners without TLS, too, as SASL_PLAINTEXT says. Otherwise a
    registration without TLS, which anybody may have written, does not get the password.
    """

    tls: ssl.SSLContext | None = None
    login: ReadCredentials | None = None
    sends_in_clear: bool = False

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a listener can be asked."""
        if endpoint.has_sasl and (self.login is None or not (endpoint.has_tls or self.sends_in_clear)):
            return False
        return not (endpoint.has_tls and self.tls is None)
