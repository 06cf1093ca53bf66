"""Validates alterations of SCRAM credentials, and computes the configs of users that hold them.

Source: Kafka ZkAdminManager.alterUserScramCredentials, ScramFormatter, ScramCredentialUtils; RFC 5802.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model import bounds
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.users import (
    AlterUserScramCredentialsRequest,
    ScramCredentialAlteration,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
    ScramMechanism,
)
from cluster.znodes.configs import ConfigEntity, entity_name
from cluster.znodes.credentials import encode_credential

_ITERATIONS_MIN, _ITERATIONS_MAX = 4096, 16_384
_MECHANISMS: Final = frozenset(ScramMechanism)
_BYTES_MAX: Final = 1024
"""Of a salt. Kafka has no limit but that of a znode; its clients make 20 to 30 bytes."""


def user_entity(user: str) -> ConfigEntity:
    """The config entity of a user, whose name is encoded as Kafka's Sanitizer does. Raises ApiError."""
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty", field="name")
    entity = ConfigEntity("users", entity_name(user))
    if not (bounds.TEXT.accepts(user) and bounds.ZNODE_NAME.accepts(entity.name)):
        why = f"the name of the user cannot be that of a znode: {bounds.ZNODE_NAME.rule}, at most 1,024 characters"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why, field="name")
    return entity


def described_credentials(overrides: Mapping[str, str]) -> tuple[ScramCredentialInfo, ...]:
    """The mechanisms for which a user has a credential, with its iterations; -1 iterations of one that is damaged."""
    return tuple(
        ScramCredentialInfo(mechanism, _iterations(overrides[mechanism.key]))
        for mechanism in ScramMechanism
        if mechanism.key in overrides
    )


def _iterations(credential: str) -> int:
    text = dict(part.partition("=")[::2] for part in credential.split(",")).get("iterations", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len(str(bounds.INT32_MAX)) else -1


def refused_users(request: AlterUserScramCredentialsRequest) -> dict[str, ApiError]:
    """User -> why nothing of it is changed, as far as the request shows."""
    named = Counter((item.user, item.mechanism) for item in request.alterations)
    errors: dict[str, ApiError] = {}
    for (user, _), count in named.items():
        if count > 1:
            twice = "A user credential cannot be altered twice in the same request"
            errors[user] = ApiError(ErrorCode.DUPLICATE_RESOURCE, twice, field="name")
    for item in request.alterations:
        try:
            _check(item)
        except ApiError as error:
            # As in Kafka this is looked at first.
            errors[item.user] = error
    return errors


def _check(item: ScramCredentialAlteration) -> None:
    user_entity(item.user)
    if item.mechanism not in _MECHANISMS:
        why = f"Unknown SCRAM mechanism {item.mechanism}; known are 1 (SCRAM-SHA-256) and 2 (SCRAM-SHA-512)"
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, why, field="mechanism")
    if isinstance(item, ScramCredentialDeletion):
        return
    if not _ITERATIONS_MIN <= item.iterations <= _ITERATIONS_MAX:
        which = "few" if item.iterations < _ITERATIONS_MIN else "many"
        why = f"Too {which} iterations: {item.iterations}; must be {_ITERATIONS_MIN} to {_ITERATIONS_MAX}"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why, field="iterations")
    if len(item.salt) > _BYTES_MAX:
        why = f"the salt has {len(item.salt)} bytes; at most {_BYTES_MAX}"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why, field="salt")
    # Keys are made from it alone, so that of an empty one anybody can compute them.
    expected = hashlib.new(_digest(item)).digest_size
    if len(item.salted_password) != expected:
        why = f"the salted password has {len(item.salted_password)} bytes; PBKDF2 gives {expected} for this mechanism"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why, field="salted_password")


def _digest(upsertion: ScramCredentialUpsertion) -> str:
    return "sha256" if upsertion.mechanism == ScramMechanism.SHA_256 else "sha512"


def with_credentials(overrides: Mapping[str, str], alterations: Iterable[ScramCredentialAlteration]) -> dict[str, str]:
    """The configs of a user after valid alterations of its credentials; others, such as quotas, stay.

    Raises ApiError for a deletion of what the user does not have.
    """
    result = dict(overrides)
    for item in alterations:
        key = ScramMechanism(item.mechanism).key
        if isinstance(item, ScramCredentialUpsertion):
            result[key] = _credential(item)
        elif result.pop(key, None) is None:
            why = "Attempt to delete a user credential that does not exist"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, why, field="name")
    return result


def _credential(upsertion: ScramCredentialUpsertion) -> str:
    digest = _digest(upsertion)
    return encode_credential(digest, upsertion.salt, upsertion.salted_password, upsertion.iterations)
