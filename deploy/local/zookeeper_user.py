"""A ZooKeeper user for one local cluster, so that the znodes it creates belong to it."""

import os
import secrets
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import StartupError

LOGIN_FILE: Final = "zookeeper-login.jaas"
_LOGIN: Final = """\
Client {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="klamm"
  password="{password}";
}};
"""


def settings_of_owner(folder: Path) -> dict[str, Any]:
    """Settings with which znodes belong to the user of this directory, who is created if missing.

    ZooKeeper's `digest` scheme needs no server configuration, so any server will do. Raises StartupError.
    """
    login = folder.resolve() / LOGIN_FILE
    try:
        # Readable by its owner only, from its creation on.
        with os.fdopen(os.open(login, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(_LOGIN.format(password=secrets.token_urlsafe(24)))
    except FileExistsError:
        pass
    except OSError as error:
        raise StartupError(f"{login}: cannot be written: {error.strerror}") from error
    return {
        "java.security.auth.login.config": str(login),
        "klamm.zookeeper.auth.scheme": "digest",
        "zookeeper.set.acl": True,
    }
