"""How brokers are reached from where `klamm adopt` runs, as `--command-config` says."""

import ssl
from typing import NamedTuple

from cluster.model.broker import Endpoint
from cluster.sasl.clients import ReadCredentials


class BrokerAccess(NamedTuple):
    """`tls` None: listeners with TLS are not asked. `login` None: nor are those with SASL."""

    tls: ssl.SSLContext | None = None
    login: ReadCredentials | None = None

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a listener can be asked."""
        return not (endpoint.has_tls and self.tls is None) and not (endpoint.has_sasl and self.login is None)
