"""Reads a user and a password, or a Kerberos principal and its keytab, from a login module of JAAS, as Kafka's clients
and brokers have it.

Source: Kafka PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, KerberosLogin; the JDK's Krb5LoginModule.
"""

from collections.abc import Mapping
from typing import Final

from cluster.config.files import shown
from cluster.model.errors import ConfigError
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.jaas import LoginModule
from cluster.sasl.kerberos import KerberosLogin
from cluster.sasl.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, SCRAM
from cluster.tls.secret import Secret

MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    "com.sun.security.auth.module.Krb5LoginModule": (GSSAPI,),
}
"""The classes of Kafka and of Java, and the mechanisms that each is for."""
_USER: Final = "user_"
_FILE: Final = "FILE:"
SERVICE_NAME: Final = "sasl.kerberos.service.name"


def credentials_in(module: LoginModule, mechanism: str) -> ClientCredentials:
    """Read user and password. Raises ConfigError, which quotes neither of them."""
    check_module(module, mechanism)
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise ConfigError([f"has no {'password' if user else 'username'}"])
    return ClientCredentials(mechanism, user, Secret(password))


def kerberos_login_in(module: LoginModule, setting: str, service: str) -> KerberosLogin:
    """Read principal and keytab, or the cache of a user's tickets. `setting`: where the module stands; `service`: what
    the settings have for `sasl.kerberos.service.name`. Raises ConfigError.
    """
    check_module(module, GSSAPI)
    options = module.options
    own = options.get("serviceName", "")
    if own and service and own != service:
        raise ConfigError([f"has serviceName={shown(own)}, and {SERVICE_NAME} is {shown(service)}: they must agree"])
    if _is_true(options, "useKeyTab"):
        for option in ("keyTab", "principal"):
            if not options.get(option):
                raise ConfigError([f"has no {option}, which useKeyTab=true needs"])
        keytab = options["keyTab"].removeprefix(_FILE)
        return KerberosLogin(options["principal"], keytab, own or service, setting=setting)
    if _is_true(options, "useTicketCache"):
        cache = options.get("ticketCache", "")
        return KerberosLogin(options.get("principal", ""), None, own or service, cache, setting)
    raise ConfigError(["has neither useKeyTab=true with keyTab and principal, nor useTicketCache=true"])


def kerberos_credentials_in(module: LoginModule, setting: str, service: str) -> ClientCredentials:
    """Read with what a client proves who it is to a service. Raises ConfigError."""
    login = kerberos_login_in(module, setting, service)
    if not login.service:
        raise ConfigError(
            [f"has no serviceName, and {SERVICE_NAME} is not set: it is the first component of the brokers' principals"]
        )
    return ClientCredentials(GSSAPI, login.principal, kerberos=login, setting=setting)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def check_module(module: LoginModule, mechanism: str) -> None:
    """Raise ConfigError if the class is not for the mechanism."""
    if mechanism not in MODULES.get(module.name, ()):
        needed = next(name for name, mechanisms in MODULES.items() if mechanism in mechanisms)
        raise ConfigError([f"{shown(module.name)}: {mechanism} needs {needed}"])


def users_in(module: LoginModule) -> dict[str, Secret]:
    """The users that a server with PLAIN knows, each an option `user_NAME="password"`."""
    options = module.options.items()
    return {key.removeprefix(_USER): Secret(value) for key, value in options if key.startswith(_USER) and key != _USER}
