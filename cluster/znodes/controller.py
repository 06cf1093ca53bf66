"""`/controller` and `/controller_epoch`: the active controller and its epoch."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.bodies import INT32_MAX, decode
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH

_UNSIGNED: Final = 1 << 64


class ControllerBody(Struct, frozen=True):
    """`/controller`. `owner`: the session whose znode it is, where the znode is persistent; as in ZooKeeper's `dump`.

    Kafka's brokers ignore the owner.
    """

    brokerid: Annotated[ControllerId, Meta(ge=0, le=INT32_MAX)]
    owner: Annotated[str, Meta(pattern="^0x[0-9a-f]{1,16}$")] | None = field(default=None, name="klammSession")

    @property
    def session(self) -> int | None:
        """The session of the owner, as `ephemeral_owner` has it."""
        number = None if self.owner is None else int(self.owner, 16)
        return number if number is None or number < _UNSIGNED // 2 else number - _UNSIGNED


def encode_controller(controller: ControllerId, now_ms: int, session: int | None = None) -> bytes:
    """Encode `/controller`. `session`: the owner's, for a persistent znode."""
    body: dict[str, object] = {
        "version": 2,
        "brokerid": controller,
        "timestamp": str(now_ms),
        "kraftControllerEpoch": -1,
    }
    if session is not None:
        body["klammSession"] = f"{session % _UNSIGNED:#x}"
    return msgspec.json.encode(body)


def decode_controller_body(data: bytes) -> ControllerBody | None:
    """Decode `/controller`; None if the content is malformed."""
    try:
        return decode(_controller_decoder, CONTROLLER, data)
    except MalformedZnodeError:
        return None


def decode_controller(data: bytes) -> ControllerId | None:
    """The active controller's id; None if the content is malformed (no controller known)."""
    body = decode_controller_body(data)
    return None if body is None else body.brokerid


_controller_decoder = msgspec.json.Decoder(ControllerBody)


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    """Encode `/controller_epoch`."""
    assert epoch >= 0, f"controller epoch {epoch} is negative"
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    """Decode `/controller_epoch`. Raises MalformedZnodeError."""
    if not data.isdigit():
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "not a decimal number")
    if len(data) > 10 or int(data) >= INT32_MAX:
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "no epoch of 32 bits can follow it")
    return ControllerEpoch(int(data))
