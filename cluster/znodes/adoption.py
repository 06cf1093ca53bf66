"""`/klamm/adoption`: while it stands, candidates take `/controller` from Apache Kafka's brokers, in its mode.

Not of Kafka. Written by `klamm adopt`, deleted by `klamm leave`.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from cluster.model.broker import BrokerId
from cluster.model.errors import MalformedZnodeError
from cluster.model.takeover import AdoptedMode
from cluster.znodes.bodies import INT32_MAX, decode
from cluster.znodes.paths import ADOPTION

_VERSION: Final = 1
_TEXT_MAX: Final = 256


class Adoption(Struct, frozen=True):
    """`by`: who adopted the cluster, for people. `at_ms`: when.

    `brokers`: those that could be asked for their settings before, so that a candidate which would not admit one of
    them is unfit to govern the cluster; empty from a release that did not name them.
    """

    mode: AdoptedMode
    by: Annotated[str, Meta(max_length=_TEXT_MAX)]
    at_ms: int
    version: int = _VERSION
    brokers: tuple[Annotated[BrokerId, Meta(ge=0, le=INT32_MAX)], ...] = ()


_decoder = msgspec.json.Decoder(Adoption)


def encode_adoption(adoption: Adoption) -> bytes:
    return msgspec.json.encode(adoption)


def decode_adoption(data: bytes) -> Adoption:
    """Decode the adoption. Raises MalformedZnodeError."""
    adoption = decode(_decoder, ADOPTION, data)
    if adoption.version != _VERSION:
        raise MalformedZnodeError(ADOPTION, data, f"version {adoption.version} is not {_VERSION}")
    return adoption
