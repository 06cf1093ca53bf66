"""`/controller` and `/controller_epoch`: the active controller and its epoch."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from cluster.broker import ControllerEpoch, ControllerId
from cluster.errors import MalformedZnodeError
from cluster.znodes.bodies import INT32_MAX, decode
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH


class _Controller(Struct):
    brokerid: Annotated[ControllerId, Meta(ge=0, le=INT32_MAX)]


def encode_controller(controller: ControllerId, now_ms: int) -> bytes:
    return msgspec.json.encode(
        {"version": 2, "brokerid": controller, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> ControllerId | None:
    """The active controller's id; None if the content is malformed (no controller known)."""
    try:
        return decode(_controller_decoder, CONTROLLER, data).brokerid
    except MalformedZnodeError:
        return None


_controller_decoder = msgspec.json.Decoder(_Controller)


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    assert epoch >= 0, f"controller epoch {epoch} is negative"
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    if not data.isdigit():
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "not a decimal number")
    if len(data) > 10 or int(data) >= INT32_MAX:
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "no epoch of 32 bits can follow it")
    return ControllerEpoch(int(data))
