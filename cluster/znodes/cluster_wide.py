"""Cluster id, finalized features (KIP-584) and producer id blocks."""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from cluster.model import bounds
from cluster.model.broker import BrokerId
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.bodies import INT32_MAX, Int32, decode, require
from cluster.znodes.paths import CLUSTER_ID, FEATURE, PRODUCER_ID_BLOCK


class _ClusterId(Struct):
    id: str


_cluster_id_decoder = msgspec.json.Decoder(_ClusterId)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Its `version` is a string, as Kafka writes it."""
    return msgspec.json.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    cluster_id = decode(_cluster_id_decoder, CLUSTER_ID, data).id
    require(CLUSTER_ID, data, bounds.CLUSTER_ID, cluster_id)
    return cluster_id


def readable_cluster_id(data: bytes) -> str:
    """Decode as `decode_cluster_id`, to "" where it is malformed: a reader that only shows the id can do without it."""
    try:
        return decode_cluster_id(data)
    except MalformedZnodeError:
        return ""


class FinalizedFeatures(Struct, frozen=True):
    """`levels`: feature -> max_version_level. `version`: of the format; version 1 has minimum levels, too."""

    enabled: bool
    levels: dict[str, int] = {}
    version: int = 2


class _FeatureLevel(Struct):
    max_version_level: Annotated[int, Meta(ge=1, le=INT32_MAX)]
    min_version_level: Int32 | None = None


class _Features(Struct):
    version: int
    status: int
    features: dict[str, _FeatureLevel]


_features_decoder = msgspec.json.Decoder(_Features)


def encode_features(features: FinalizedFeatures) -> bytes:
    lowest = {"min_version_level": 1} if features.version == 1 else {}
    return msgspec.json.encode(
        {
            "version": features.version,
            "status": int(features.enabled),
            "features": {name: {**lowest, "max_version_level": level} for name, level in features.levels.items()},
        }
    )


def decode_features(data: bytes) -> FinalizedFeatures:
    """Decode `/feature`. Version, status, features and each feature's levels are required, whatever the status (ZK-8).

    Raises MalformedZnodeError. Source: Kafka FeatureZNode.decode.
    """
    body = decode(_features_decoder, FEATURE, data)
    if body.version not in {1, 2} or body.status not in {0, 1}:
        raise MalformedZnodeError(FEATURE, data, f"version {body.version}, status {body.status}")
    if body.version == 1 and not all(_is_range(feature) for feature in body.features.values()):
        raise MalformedZnodeError(FEATURE, data, "a lowest level is missing, below 1 or above the highest")
    require(FEATURE, data, bounds.TEXT, *body.features)
    levels = {name: f.max_version_level for name, f in body.features.items()}
    return FinalizedFeatures(body.status == 1, levels, body.version)


class ProducerIdBlock(NamedTuple):
    """Ids from `start` to `end`, both inclusive, allocated to this broker."""

    broker: BrokerId
    start: int
    end: int


class _ProducerIdBlock(Struct):
    broker: Annotated[BrokerId, Meta(ge=-1, le=INT32_MAX)]
    block_start: str
    block_end: str


_producer_id_block_decoder = msgspec.json.Decoder(_ProducerIdBlock)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    body = {"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)}
    return msgspec.json.encode(body)


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """The last allocated block; None for the empty znode of a new cluster."""
    if not data:
        return None
    body = decode(_producer_id_block_decoder, PRODUCER_ID_BLOCK, data)
    start, end = (bounds.parse_number(bounds.PRODUCER_ID, text) for text in (body.block_start, body.block_end))
    if start is None or end is None:
        raise MalformedZnodeError(PRODUCER_ID_BLOCK, data, "block_start and block_end must be producer ids")
    return ProducerIdBlock(body.broker, start, end)


def _is_range(feature: _FeatureLevel) -> bool:
    return feature.min_version_level is not None and 1 <= feature.min_version_level <= feature.max_version_level
