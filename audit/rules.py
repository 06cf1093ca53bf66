"""The invariants as a stateful operator of Spark: one group per key of the source, its state as msgpack bytes.

Nothing is decided here: what a rule remembers and finds is in `state_log.invariants` and `state_log.chain`.
State lives until the audit's output is thrown away; there is no watermark, so a stamp from the future or a
late file drops nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pandas
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import BinaryType, StructField, StructType

from audit import source
from audit.report import IncarnationProgress
from state_log.chain import ChainSegment, IncarnationLog, join
from state_log.histories import PartitionHistory
from state_log.invariants import ControllerEpochs, Finding, check_controller_epoch, check_partition
from state_log.record import LoggedStateChange

STATE: Final = StructType([StructField("state", BinaryType())])

Outcome = tuple[str, bytes]
"""The table that a row belongs to, and the row as JSON."""


def check(key: tuple[str], frames: Iterator[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
    """Spark's entry (applyInPandasWithState): the new values of one key in one batch, in no order."""
    subject, _, _ = key[0].partition("/")
    values = [value for frame in frames for value in frame["value"]]
    before = state.get[0] if state.exists else None
    after, outcomes = check_values(subject, values, before)
    if after is not None:
        state.update((after,))
    yield pandas.DataFrame({"what": [o[0] for o in outcomes], "value": [o[1].decode() for o in outcomes]})


def check_values(subject: str, values: Sequence[bytes], before: bytes | None) -> tuple[bytes | None, list[Outcome]]:
    """The state after these values of one key, None where it has none, and what came out."""
    match subject:
        case source.PARTITION:
            return _check_partition(values, before)
        case source.INCARNATION:
            return _check_incarnation(values, before)
        case source.CONTROLLER_EPOCHS:
            return _check_controller_epochs(values, before)
        case _:
            assert subject == source.QUARANTINE, f"the source knows no {subject}"
            return None, [("quarantine", value) for value in values]


def _check_partition(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    history = _load(PartitionHistory, before)
    outcomes: list[Outcome] = []
    for record, line in _in_order(values):
        outcomes += _finding_rows(check_partition(history, record))
        outcomes.append(("timelines", line))
    return _pack(history), outcomes


def _check_controller_epochs(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    epochs = _load(ControllerEpochs, before)
    found = [finding for record, _ in _in_order(values) for finding in check_controller_epoch(epochs, record)]
    return _pack(epochs), _finding_rows(found)


def _check_incarnation(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    log = _load(IncarnationLog, before)
    segments = sorted((_decode_segment(value) for value in values), key=lambda s: s.first_seq)
    found = []
    for segment in segments:
        log, wrong = join(log, segment)
        reference = f"{segment.node}/{segment.incarnation}/{segment.first_seq}"
        found += [Finding(rule, f"{reference}: {message}", (reference,)) for rule, message in wrong]
    node, incarnation = segments[0].node, segments[0].incarnation
    row = IncarnationProgress(node, incarnation, log.next_seq - 1, log.records)
    return _pack(log), [*_finding_rows(found), ("incarnations", _encode(row))]


def _in_order(values: Iterable[bytes]) -> list[tuple[LoggedStateChange, bytes]]:
    """Each incarnation's records in the order of their numbers, as the rules want them."""
    decoded = [(_record(value), value) for value in values]
    return sorted(decoded, key=lambda item: (item[0].incarnation, item[0].node, item[0].seq))


def _finding_rows(findings: Iterable[Finding]) -> list[Outcome]:
    return [("findings", _encode(finding)) for finding in findings]


def _load(kind: type[Any], before: bytes | None) -> Any:
    return kind() if before is None else msgspec.msgpack.decode(before, type=kind)


_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_record = msgspec.json.Decoder(LoggedStateChange).decode
_decode_segment = msgspec.json.Decoder(ChainSegment).decode
