"""Reads the ZooKeeper credentials of a process from the JAAS file named in its settings."""

from pathlib import Path

from cluster.errors import ConfigError
from cluster.process.settings import Settings
from cluster.zookeeper.login import Credentials, Scheme, parse_login

LOGIN_FILE_KEY = "java.security.auth.login.config"


def read_credentials(settings: Settings) -> Credentials | None:
    """The credentials; None if no file is configured (anonymous session). Raises ConfigError with key and file."""
    path = settings.java_security_auth_login_config
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
        return parse_login(text, settings.zookeeper_sasl_clientconfig, Scheme(settings.klamm_zookeeper_auth_scheme))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "is not text in UTF-8"
    except ValueError as error:
        why = str(error)
    raise ConfigError([f'settings."{LOGIN_FILE_KEY}": {path!r}: {why}'])
