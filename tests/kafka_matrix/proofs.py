"""What users with Kerberos or with tokens prove themselves with: a center and keytabs, or signed tokens."""

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.kafka_matrix import axes, settings
from tests.kafka_matrix.axes import Cluster
from tests.kafka_matrix.stores import Stores
from tests.processes.kdc import running_kdc
from tests.processes.tokens import TokenIssuer

SUPER: Final = "super:of the server"
"""The user who may do everything in a ZooKeeper with Kerberos, for the tests to look into it."""


@contextmanager
def proofs(cluster: Cluster, folder: Path, stores: Stores) -> Iterator[None]:
    """Make them; within it processes that are started find them."""
    found: dict[str, str] = {}
    of_java: list[str] = []
    with ExitStack() as stack:
        if cluster.needs_kdc:
            kdc = stack.enter_context(running_kdc(folder / "kdc"))
            principals = {
                settings.SERVICE: f"{settings.SERVICE}/{settings.HOST}",
                "zookeeper": f"zookeeper/{settings.HOST}",
                settings.ADMIN: settings.ADMIN,
                settings.APP: settings.APP,
            }
            for name, principal in principals.items():
                kdc.keytab(name, principal).replace(stores.keytab(name))
            of_java.append(f"-Djava.security.krb5.conf={kdc.config}")
            digest = base64.b64encode(hashlib.sha1(SUPER.encode()).digest()).decode()
            of_java.append(f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{digest}")
            # aiokafka takes the tickets of its process.
            found |= {"KRB5_CONFIG": str(kdc.config), "KRB5_CLIENT_KTNAME": str(stores.keytab(settings.APP))}
            found["KRB5CCNAME"] = "MEMORY:app"
        if cluster.mechanism == axes.OAUTHBEARER:
            issuer = TokenIssuer(stores.keys, settings.AUDIENCE, settings.ISSUER)
            users = (settings.BROKER, settings.ADMIN, settings.APP)
            for user in users:
                issuer.write(stores.token(user), user, 3600)
            urls = ",".join(path.as_uri() for path in (stores.keys, *map(stores.token, users)))
            of_java.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}")
        if of_java:
            found["JAVA_TOOL_OPTIONS"] = " ".join(of_java)
        stack.enter_context(patch.dict(os.environ, found))
        yield
