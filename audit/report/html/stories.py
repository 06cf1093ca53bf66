"""What happened around the records of a finding: the lines of the partition's story near them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow.dataset

from audit.report.report import nested
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE
from state_log.causes import utc_text
from state_log.record import LoggedStateChange
from state_log.story import StoryLine, story

PARTITIONS_MAX: Final = 100
"""The number of findings whose stories are shown: the first ones."""
_RECORDS_MAX: Final = 20_000
"""The number of lines for one partition; `klamm story` shows longer stories."""
_NEAR: Final = 3
_SKIPPED: Final = "…"

Name = tuple[str, str | None, int]
"""Topic, topic id, partition."""


def stories(folder: OutputFolder, findings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The lines near the records of each finding, `>` before these; none for findings about no partition."""
    names = dict.fromkeys(name for name in map(_name, findings) if name is not None)
    known = {name: _Story(records) for name, records in _records(folder, list(names)[:PARTITIONS_MAX]).items()}
    of_findings = ((_name(finding), finding["records"]) for finding in findings)
    return [_near(None if name is None else known.get(name), records) for name, records in of_findings]


def _name(finding: Mapping[str, Any]) -> Name | None:
    return None if finding["partition"] is None else (finding["topic"], finding["topic_id"], finding["partition"])


def _records(folder: OutputFolder, names: Sequence[Name]) -> dict[Name, list[LoggedStateChange]]:
    field = pyarrow.dataset.field
    topics, partitions = sorted({name[0] for name in names}), sorted({name[2] for name in names})
    found: dict[Name, list[LoggedStateChange]] = {name: [] for name in names}
    where = field("topic").isin(topics) & field("partition").isin(partitions)
    for row in folder.rows(RECORDS_TABLE, where=where) if names else ():
        records = found.get((row["topic"], row["topic_id"], row["partition"]))
        if records is not None and len(records) <= _RECORDS_MAX:
            records.append(msgspec.convert(nested(row), LoggedStateChange))
    return {name: records for name, records in found.items() if len(records) <= _RECORDS_MAX}


class _Story:
    """The lines of a partition's story; `places`: where each record is."""

    def __init__(self, records: Sequence[LoggedStateChange]) -> None:
        self.lines: Sequence[StoryLine] = story(records)
        self.places: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            self.places.setdefault(line.record.reference, []).append(number)


def _near(found: _Story | None, records: Sequence[str]) -> list[str]:
    if found is None:
        return []
    lines = found.lines
    evidence = {number for name in records for number in found.places.get(name, ())}
    shown = sorted({n for at in evidence for n in range(at - _NEAR, at + _NEAR + 1) if 0 <= n < len(lines)})
    texts: list[str] = []
    for before, number in zip([None, *shown], shown, strict=False):
        if before is not None and number > before + 1:
            texts.append(_SKIPPED)
        line = lines[number]
        texts.append(f"{'>' if number in evidence else ' '} {utc_text(line.at_ms)}  {line.node}  {line.message}")
    return texts
