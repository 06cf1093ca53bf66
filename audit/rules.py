"""The invariants as a stateful operator of Spark: one group per key of the source, its state as msgpack bytes.

Nothing is decided here: what a rule remembers and finds is in `cluster.invariants` and `cluster.log_chain`.
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
from cluster.invariants import ControllerReigns, Finding, check_partition, check_reign
from cluster.log_chain import IncarnationLog, Stretch, join
from cluster.partition_history import PartitionHistory
from cluster.state_change_log import LoggedStateChange

STATE: Final = StructType([StructField("state", BinaryType())])

Outcome = tuple[str, bytes]
"""The table that a row belongs to, and the row as JSON."""


def judge(key: tuple[str], frames: Iterator[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
    """Spark's entry (applyInPandasWithState): the new values of one key in one batch, in no order."""
    subject, _, _ = key[0].partition("/")
    values = [value for frame in frames for value in frame["value"]]
    before = state.get[0] if state.exists else None
    after, outcomes = judge_values(subject, values, before)
    if after is not None:
        state.update((after,))
    yield pandas.DataFrame({"what": [o[0] for o in outcomes], "value": [o[1].decode() for o in outcomes]})


def judge_values(subject: str, values: Sequence[bytes], before: bytes | None) -> tuple[bytes | None, list[Outcome]]:
    """The state after these values of one key, None where it has none, and what came out."""
    match subject:
        case source.PARTITION:
            return _judge_partition(values, before)
        case source.INCARNATION:
            return _judge_incarnation(values, before)
        case source.REIGNS:
            return _judge_reigns(values, before)
        case _:
            assert subject == source.QUARANTINE, f"the source knows no {subject}"
            return None, [("quarantine", value) for value in values]


def _judge_partition(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    history = _load(PartitionHistory, before)
    outcomes: list[Outcome] = []
    for record, line in _in_order(values):
        outcomes += _finding_rows(check_partition(history, record))
        outcomes.append(("timelines", line))
    return _pack(history), outcomes


def _judge_reigns(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    reigns = _load(ControllerReigns, before)
    found = [finding for record, _ in _in_order(values) for finding in check_reign(reigns, record)]
    return _pack(reigns), _finding_rows(found)


def _judge_incarnation(values: Sequence[bytes], before: bytes | None) -> tuple[bytes, list[Outcome]]:
    log = _load(IncarnationLog, before)
    stretches = sorted((_stretch(value) for value in values), key=lambda s: s.first_seq)
    found = []
    for stretch in stretches:
        log, wrong = join(log, stretch)
        reference = f"{stretch.node}/{stretch.incarnation}/{stretch.first_seq}"
        found += [Finding(rule, f"{reference}: {words}", (reference,)) for rule, words in wrong]
    node, incarnation = stretches[0].node, stretches[0].incarnation
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
_stretch = msgspec.json.Decoder(Stretch).decode
