"""Spark's checkpoint made again from a commit: each file missing, empty, or cut short."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.storage.checkpoints import LocalCheckpoint
from audit.storage.commits import Commit
from audit.storage.state_versions import VERSION

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"broker-1": [0, 9]}'
EARLIER = OFFSETS.replace("9", "5")
LATER = OFFSETS.replace("9", "12")
COMMITTED = 'v1\n{"nextBatchWatermarkMs":0}'
FILES = {
    "metadata": '{"id":"query"}',
    "offsets/0": EARLIER,
    "offsets/1": EARLIER,
    "offsets/2": OFFSETS,
    "offsets/3": LATER,
    "commits/0": COMMITTED,
    "commits/1": COMMITTED,
    "commits/2": COMMITTED,
}
NEEDED = ("metadata", "offsets/1", "offsets/2")
COMMIT = Commit(VERSION, 2, "query", {}, offsets=OFFSETS)
SUMS = b"crc\0" + b"\0\0\2\0" + b"sums"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Batch 2 is committed, and batch 3 is planned."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.with_name(f".{path.name}.crc").write_bytes(SUMS)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """The files, without those of check sums: Spark does without them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_a_whole_checkpoint_stays_as_it_is(folder: Path) -> None:
    assert LocalCheckpoint(folder).repair(COMMIT) == []
    assert contents(folder) == FILES


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("change", [Path.unlink, lambda path: os.truncate(path, 0), halved], ids=["no", "empty", "cut"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_written_again_or_not_needed(
    name: str, change: Callable[[Path], object], folder: Path
) -> None:
    change(folder / name)
    was_removed = change is Path.unlink
    found = LocalCheckpoint(folder).repair(COMMIT)
    now = contents(folder)
    sums = {path.name for path in folder.rglob(".*.crc")}
    assert sums <= {f".{other.rpartition('/')[2]}.crc" for other in now}, "Spark could not write the file again"
    if name in NEEDED:
        assert found == sorted([name, "commits/2"])
    elif name == "commits/2" and not was_removed:
        assert found == [name]
    else:
        # Spark plans the next batch again; it looks at no other.
        assert found == []
        assert now == {other: text for other, text in FILES.items() if other != name}
        return
    assert now == FILES | ({"offsets/1": OFFSETS} if name == "offsets/1" else {})
    assert LocalCheckpoint(folder).repair(COMMIT) == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_whose_check_sums_were_cut_is_as_damaged(name: str, folder: Path) -> None:
    os.truncate(folder / name.replace(name.rsplit("/", maxsplit=1)[-1], f".{name.rsplit('/', maxsplit=1)[-1]}.crc"), 0)
    LocalCheckpoint(folder).repair(COMMIT)
    path = folder / name
    assert not path.with_name(f".{path.name}.crc").exists() or name == "metadata"
    assert LocalCheckpoint(folder).repair(COMMIT) == []


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    found = LocalCheckpoint(tmp_path / "checkpoint").repair(COMMIT)
    assert found == ["commits/2", "metadata", "offsets/1", "offsets/2"]
    assert LocalCheckpoint(tmp_path / "checkpoint").synced_offsets(2) == OFFSETS


def test_other_offsets_than_those_of_the_commit_are_replaced(folder: Path) -> None:
    (folder / "offsets" / "2").write_text(EARLIER)
    assert LocalCheckpoint(folder).repair(COMMIT) == ["commits/2", "offsets/2"]


def test_a_checkpoint_of_another_query_or_of_an_older_klamm_is_left_alone(folder: Path) -> None:
    (folder / "offsets" / "2").unlink()
    assert LocalCheckpoint(folder).repair(Commit(VERSION, 2, "other", {}, offsets=OFFSETS)) == []
    assert LocalCheckpoint(folder).repair(Commit(VERSION, 2, "query", {})) == []


def test_a_checkpoint_in_an_object_store_is_not_this_machine_s() -> None:
    assert LocalCheckpoint.at("s3a://bucket/checkpoint") is None


def test_what_sources_note_is_written_to_the_disk_too(folder: Path) -> None:
    noted = folder / "sources" / "0" / "2"
    noted.parent.mkdir(parents=True)
    noted.write_text("v1\n{}")
    assert LocalCheckpoint(folder).synced_offsets(2) == OFFSETS
    assert LocalCheckpoint(folder).synced_offsets(7) == ""
