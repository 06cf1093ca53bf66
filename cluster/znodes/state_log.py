"""`/klamm/state_log/<node>`: where the newest state-change logs of a node ended. Not of Kafka."""

import msgspec
from msgspec import Struct

from cluster.model.bounds import BOOT_ID, LOG_DIGEST, LOG_INCARNATION, LOG_SEQUENCE
from cluster.requests.control import StateLogHead
from cluster.znodes.bodies import decode, require
from cluster.znodes.paths import state_log_path


class _Head(Struct, omit_defaults=True):
    incarnation: str
    seq: int
    digest: str
    boot_id: str = ""


class _Heads(Struct):
    version: int
    heads: list[_Head]


_decoder = msgspec.json.Decoder(_Heads)


def encode_heads(heads: tuple[StateLogHead, ...]) -> bytes:
    """The heads of one node's incarnations."""
    bodies = [_Head(head.incarnation, head.seq, head.digest, head.boot_id) for head in heads]
    return msgspec.json.encode(_Heads(1, bodies))


def decode_heads(node: str, data: bytes) -> tuple[StateLogHead, ...]:
    """Decode the content of the node's znode. Raises MalformedZnodeError."""
    path = state_log_path(node)
    body = decode(_decoder, path, data)
    for head in body.heads:
        require(path, data, LOG_INCARNATION, head.incarnation)
        require(path, data, LOG_SEQUENCE, head.seq)
        require(path, data, LOG_DIGEST, head.digest)
        require(path, data, BOOT_ID, head.boot_id)
    return tuple(StateLogHead(node, h.incarnation, h.seq, h.digest, h.boot_id) for h in body.heads)
