"""Reads a user and a password from a login module of JAAS, as Kafka's clients and brokers have it.

Source: Kafka PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule.
"""

from typing import Final

from cluster.config.files import shown
from cluster.model.errors import ConfigError
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.jaas import LoginModule
from cluster.sasl.mechanisms import OAUTHBEARER, PLAIN, SCRAM
from cluster.tls.secret import Secret

MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
}
"""Kafka's classes, and the mechanisms that each is for."""
_USER: Final = "user_"


def credentials_in(module: LoginModule, mechanism: str) -> ClientCredentials:
    """Read user and password. Raises ConfigError, which quotes neither of them."""
    check_module(module, mechanism)
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise ConfigError([f"has no {'password' if user else 'username'}"])
    return ClientCredentials(mechanism, user, Secret(password))


def check_module(module: LoginModule, mechanism: str) -> None:
    """Raise ConfigError if the class is not for the mechanism."""
    if mechanism not in MODULES.get(module.name, ()):
        needed = next(name for name, mechanisms in MODULES.items() if mechanism in mechanisms)
        raise ConfigError([f"{shown(module.name)}: {mechanism} needs {needed}"])


def users_in(module: LoginModule) -> dict[str, Secret]:
    """The users that a server with PLAIN knows, each an option `user_NAME="password"`."""
    options = module.options.items()
    return {key.removeprefix(_USER): Secret(value) for key, value in options if key.startswith(_USER) and key != _USER}
