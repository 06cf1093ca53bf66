"""An issuer of signed tokens, as brokers and klamm verify them: JSON Web Tokens with RS256."""

import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.processes.certificates import write_secret


class TokenIssuer:
    """`keys`: the file with its public key, a JSON Web Key Set."""

    def __init__(self, keys: Path, audience: str, issuer: str) -> None:
        self.keys, self._claims = keys, {"aud": audience, "iss": issuer, "scope": "kafka"}
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        described = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        keys.write_text(json.dumps({"keys": [{**described, "kid": "k1", "alg": "RS256", "use": "sig"}]}))

    def write(self, path: Path, user: str, lasts_s: float) -> Path:
        """Replace the file with a token of the user, as a whole."""
        now = time.time()
        claims = {**self._claims, "sub": user, "iat": now, "exp": now + lasts_s}
        write_secret(path, jwt.encode(claims, self._key, "RS256", headers={"kid": "k1"}).encode())
        return path
