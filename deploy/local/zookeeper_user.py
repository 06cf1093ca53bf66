"""A user of ZooKeeper for one local cluster, so that the nodes which it creates are its own."""

import os
import secrets
from pathlib import Path
from typing import Any, Final

from cluster.errors import StartupError

LOGIN_FILE: Final = "zookeeper-login.jaas"
_LOGIN: Final = """\
Client {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="klamm"
  password="{password}";
}};
"""


def settings_of_owner(folder: Path) -> dict[str, Any]:
    """Settings with which nodes belong to the user of this folder, who is made up where there is none yet.

    ZooKeeper's own `digest` asks for no set-up of the server, so any server will do. Raises StartupError.
    """
    login = folder.resolve() / LOGIN_FILE
    try:
        # Only its owner may ever have read it.
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
