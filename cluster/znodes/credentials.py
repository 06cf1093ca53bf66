"""SCRAM credentials as a user's config has them. Source: Kafka ScramCredentialUtils, ScramFormatter; RFC 5802."""

import hmac
from base64 import b64encode
from hashlib import new


def encode_credential(digest: str, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """Encode what a password is verified with. `digest`: the name of the mechanism's hash in `hashlib`."""

    def keyed(word: bytes) -> bytes:
        return hmac.digest(salted_password, word, digest)

    parts = {"salt": salt, "stored_key": new(digest, keyed(b"Client Key")).digest(), "server_key": keyed(b"Server Key")}
    encoded = ",".join(f"{name}={b64encode(value).decode()}" for name, value in parts.items())
    return f"{encoded},iterations={iterations}"
