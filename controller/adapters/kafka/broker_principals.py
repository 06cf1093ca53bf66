"""Who may act as a broker at a controller without an authorizer, while one is being switched on at the brokers.

The controller does not know the access control lists then, so it knows brokers by their principal: its own, as it has
the brokers' identity, or one in `super.users`. All others who have authenticated are clients.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from cluster.config.broker_logins import read_broker_credentials
from cluster.config.settings import Settings
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.sasl.kerberos import own_realm
from cluster.sasl.mechanisms import GSSAPI
from cluster.security.principals import USER, Principal, parse_super_users

_WHAT_TO_DO: Final = (
    "give this controller the authorizer.class.name and super.users of the brokers; it is best to do so before the "
    "first broker gets an authorizer"
)


class BrokerPrincipals:
    """Knows the principals of brokers. `own_subject`: returns the distinguished name in this controller's certificate;
    empty without one.
    """

    def __init__(self, settings: Settings, own_subject: Callable[[], str]) -> None:
        self._settings, self._own_subject = settings, own_subject
        self._super_users = parse_super_users(settings.super_users)

    async def require(self, principal: Principal, listener: str, *, has_sasl: bool) -> None:
        """Raise ApiError unless the client is a broker by its principal at this listener."""
        if principal in self._super_users:
            return
        own = await asyncio.to_thread(self._own_user, listener) if has_sasl else self._own_name(listener)
        if principal != own:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{principal} is not known as a broker: brokers have an authorizer, and this controller has none, so "
                f"that it takes requests of brokers only from {own or 'nobody'} and from super.users: {_WHAT_TO_DO}",
            )

    def _own_user(self, listener: str) -> Principal | None:
        """The user of this controller; None of a token, whose name is the server's to say. Blocks."""
        mechanism = self._settings.sasl_mechanism_inter_broker_protocol
        if mechanism is None:
            return None
        try:
            user = read_broker_credentials(self._settings, listener).user
            if mechanism == GSSAPI:
                user = self._user_of(user, listener)
        except ConfigError:
            return None
        return Principal(USER, user) if user else None

    def _user_of(self, principal: str, listener: str) -> str:
        """The user of this controller's own principal at a listener, which brokers of other hosts are, too. Raises
        ConfigError.
        """
        realm = own_realm()
        whole = principal if "@" in principal else f"{principal}@{realm}"
        return self._settings.kerberos_rules_of(listener).user_of(whole, realm)

    def _own_name(self, listener: str) -> Principal | None:
        subject = self._own_subject()
        return self._settings.mapping_of(listener).principal_of(subject) if subject else None
