"""A line of Apache Kafka's state-change.log: its header, and the record that its message makes.

The layout is that of Kafka's log4j.properties: `[%d] %p %m (%c)%n`, with a local time.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from state_log.kafka.message_fields import Said, UnclearMessageError
from state_log.kafka.messages import read_message
from state_log.record import STATE_CHANGE_VERSION, LoggedStateChange

HEADER: Final = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
    r"\[(Controller|Broker) id=(\d{1,10})(?: epoch=(\d{1,10}))?\] (.*) \(state\.change\.logger\)"
)
"""Second, milliseconds, level, role, id, epoch of the controller, message."""
EPOCH_MAX: Final = (1 << 31) - 1
NODE: Final = "kafka-"
"""How the names of Kafka's nodes begin: klamm's and Kafka's logs may lie in one folder."""
BROKER, CONTROLLER = f"{NODE}broker-", f"{NODE}controller-"


class KafkaLine(NamedTuple):
    """`offset`: the byte at which the line begins."""

    offset: int
    level: str
    is_controller: bool
    node: int
    epoch: int | None
    at_ms: int
    said: Said

    @property
    def node_name(self) -> str:
        """A broker may be the controller, too: each of the two is a node of its own."""
        return f"{CONTROLLER if self.is_controller else BROKER}{self.node}"


def line_of(offset: int, header: re.Match[str], moment_ms: Callable[[str], int]) -> KafkaLine:
    """The line of this header. `moment_ms`: a local time -> milliseconds since 1970.

    Raises UnclearMessageError; ValueError and OverflowError for a time that is none.
    """
    second, ms, level, role, node, epoch, message = header.groups()
    if int(node) > EPOCH_MAX or int(epoch or 0) > EPOCH_MAX:
        raise UnclearMessageError(f"id {node} or epoch {epoch} is no 32-bit number")
    at_ms = moment_ms(second) + int(ms)
    number = int(epoch) if epoch else None
    return KafkaLine(offset, level, role == "Controller", int(node), number, at_ms, read_message(message))


def record_of(line: KafkaLine, incarnation: str) -> LoggedStateChange | None:
    """The record that the line makes, None if it states nothing. `incarnation`: the identity of its file."""
    if not line.said.fields:
        return None
    own = {"controller_epoch": line.epoch, "broker": None if line.is_controller else line.node}
    if line.said.fields.get("to_state") == "leader":
        own["leader"] = line.node
    fields = {**own, **line.said.fields}
    if line.said.writer_epoch is not None:
        fields["controller_epoch"] = max(line.said.writer_epoch, fields["controller_epoch"] or 0)
    return LoggedStateChange(
        v=STATE_CHANGE_VERSION,
        seq=line.offset,
        node=line.node_name,
        incarnation=incarnation,
        at_ms=line.at_ms,
        **fields,
    )
