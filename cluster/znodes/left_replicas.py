"""`/klamm/left_replicas`: what brokers that were away still have of topics that were deleted without them (D-98).

Not of Kafka. The parent has the epoch of the last controller of klamm; below are brokers, and below these the names of
the deleted topics.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from cluster.model import bounds
from cluster.model.broker import ControllerEpoch, TopicId
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.bodies import decode, within
from cluster.znodes.paths import LEFT_REPLICAS

_VERSION: Final = 1


class LeftReplicas(Struct, frozen=True):
    """The partitions of a deleted topic of which a broker still has replicas. `topic_id`: of that topic."""

    topic_id: Annotated[TopicId, Meta(min_length=22, max_length=22)] | None
    partitions: tuple[Annotated[int, within(bounds.PARTITION)], ...]
    version: int = _VERSION


class _LastController(Struct, frozen=True):
    controller_epoch: Annotated[int, within(bounds.CONTROLLER_EPOCH)]
    version: int = _VERSION


_decoder = msgspec.json.Decoder(LeftReplicas)
_parent_decoder = msgspec.json.Decoder(_LastController)


def encode_left_replicas(left: LeftReplicas) -> bytes:
    return msgspec.json.encode(left)


def decode_left_replicas(path: str, data: bytes) -> LeftReplicas:
    """Decode the replicas of one topic that a broker has left. Raises MalformedZnodeError."""
    left = decode(_decoder, path, data)
    if left.version != _VERSION:
        raise MalformedZnodeError(path, data, f"version {left.version} is not {_VERSION}")
    return left


def encode_last_controller(epoch: ControllerEpoch) -> bytes:
    return msgspec.json.encode(_LastController(epoch))


def decode_last_controller(data: bytes) -> ControllerEpoch:
    """Decode the epoch of the last controller that wrote records. Raises MalformedZnodeError."""
    return ControllerEpoch(decode(_parent_decoder, LEFT_REPLICAS, data).controller_epoch)
