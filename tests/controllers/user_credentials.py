"""SCRAM credentials, and requests that alter them."""

import base64
import hashlib

from cluster.requests.users import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramMechanism,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SHA_256, SHA_512 = ScramMechanism


def upsertion(
    user: str = "ann", mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT
) -> ScramCredentialUpsertion:
    digest = "sha256" if mechanism == SHA_256 else "sha512"
    salted = hashlib.pbkdf2_hmac(digest, b"pencil", salt, max(iterations, 1))
    return ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)


def of(*items: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        tuple(item for item in items if isinstance(item, ScramCredentialDeletion)),
        tuple(item for item in items if isinstance(item, ScramCredentialUpsertion)),
    )
