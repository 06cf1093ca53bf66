"""Compares what an audit has found with what the rules of this klamm find in the same records.

The output is rebuilt in a temporary folder, which shares its files where it can; the output itself stays as it is.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from audit.batches.rebuild import rebuild
from audit.report.report import Gap, read_findings, read_result
from audit.storage.committed_state import OutputError
from audit.storage.file_store import is_remote, open_store
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import RULES_VERSION

_ALL: Final = 1_000_000
_COPIED: Final = ("commits", "state", "tables", "checkpoint", "heads.json")
_OF_OTHERS: Final = ("/_delta_log/", "/_current")
"""What is kept beside the tables for other readers: the copy is not published."""
_COMPARED: Final = ("message", "records", "topic", "partition")


class Rejudged(Struct, frozen=True):
    """The difference. `rules_before`: versions of the rules by which the records were checked before.

    `appeared`, `gone`: findings that only one of the two has; `changed`: those that say something else now.
    `newly_incomplete`, `no_longer_incomplete`: what was missing or undecided by only one of the two.
    """

    verdict_before: str
    verdict: str
    rules_before: tuple[int, ...]
    rules: int
    appeared: tuple[dict[str, Any], ...]
    gone: tuple[dict[str, Any], ...]
    changed: tuple[dict[str, Any], ...]
    newly_incomplete: tuple[Gap, ...]
    no_longer_incomplete: tuple[Gap, ...]

    @property
    def is_same(self) -> bool:
        return not (self.appeared or self.gone or self.changed or self.newly_incomplete or self.no_longer_incomplete)

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the findings that appeared, went and changed, by rule."""
        lists = {"appeared": self.appeared, "gone": self.gone, "changed": self.changed}
        return {name: dict(sorted(Counter(row["rule"] for row in rows).items())) for name, rows in lists.items()}


def rejudge(folder: OutputFolder) -> Rejudged:
    """Compare an output, which no audit may be writing to, with the same by today's rules. Raises OutputError."""
    commit = folder.last_commit()
    if commit is None:
        raise OutputError(f"{folder.location}: nothing was audited yet")
    before, found_before = read_result(folder.location), read_findings(folder.location, _ALL)
    with _copied(folder) as copy:
        rebuild(OutputFolder(copy))
        now, found_now = read_result(copy), read_findings(copy, _ALL)
    known, found = _by_name(found_before), _by_name(found_now)
    return Rejudged(
        before.verdict,
        now.verdict,
        commit.rules,
        RULES_VERSION,
        tuple(row for name, row in found.items() if name not in known),
        tuple(row for name, row in known.items() if name not in found),
        tuple(row for name, row in found.items() if name in known and _differs(known[name], row)),
        _only(now.incomplete, before.incomplete),
        _only(before.incomplete, now.incomplete),
    )


def _only(these: Sequence[Gap], others: Iterable[Gap]) -> tuple[Gap, ...]:
    known = set(others)
    return tuple(gap for gap in these if gap not in known)


def _by_name(findings: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["rule"], row["subject"]): row for row in findings}


def _differs(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return any(before[name] != now[name] for name in _COMPARED)


@contextmanager
def _copied(folder: OutputFolder) -> Iterator[Path]:
    """The committed files of an output in a folder of its own. Nothing changes a file of an output, so links do."""
    with TemporaryDirectory(prefix="klamm-rejudge-") as temporary:
        top = Path(temporary)
        for name in folder.files.sizes(""):
            if name.partition("/")[0] in _COPIED and not any(part in name for part in _OF_OTHERS):
                _copy(folder, name, top)
        yield top


def _copy(folder: OutputFolder, name: str, top: Path) -> None:
    if not is_remote(folder.location):
        target = top / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # It fails for another file system, or one without links.
        with suppress(OSError):
            os.link(Path(folder.location, name), target)
            return
    open_store(top).write(name, folder.files.read(name))
