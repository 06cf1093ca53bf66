"""One suite for all places where an audit may keep its files: a folder, an object store, and what is between.

Object stores: S3, by a server of moto's on loopback. HDFS is like a folder whose files Arrow writes and renames.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.fs
import pytest

from audit.batches.bucket import FINDINGS_TABLE
from audit.storage.file_store import FileStore, is_remote, open_store
from audit.storage.local_files import LocalFiles
from audit.storage.output_folder import OutputFolder
from audit.storage.remote_files import RemoteFiles
from cluster.model.errors import ConfigError
from tests.audits.log_audits import audit_folder
from tests.audits.s3_server import new_bucket, s3_server
from tests.audits.state_change_histories import draw, write_logs
from tests.unit.state_log.test_invariants import second_leader_by_an_agent

Make = Callable[[Path], FileStore]


@pytest.fixture(scope="module")
def s3() -> Iterator[None]:
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def in_folder(top: Path) -> FileStore:
    return LocalFiles(top / "audit")


def renaming(top: Path) -> FileStore:
    return RemoteFiles(str(top), pyarrow.fs.LocalFileSystem(), f"{top}/audit")


def on_s3(top: Path) -> FileStore:
    return open_store(f"s3a://{new_bucket()}/an/audit")


@pytest.fixture(params=[in_folder, renaming, on_s3])
def store(request: pytest.FixtureRequest, s3: None, tmp_path: Path) -> FileStore:
    make: Make = request.param
    return make(tmp_path)


def content(store: FileStore, name: str) -> bytes:
    found: bytes = store.read(name).to_pybytes()
    return found


def test_nothing_is_there_before_something_was_written(store: FileStore) -> None:
    assert store.sizes("commits") == {}
    with pytest.raises(FileNotFoundError):
        store.read("commits/0.json")
    store.remove("commits/0.json")


@pytest.mark.parametrize("data", [b"", b"a", pyarrow.py_buffer(b"abc" * 3_000_000)])
def test_what_was_written_is_read(store: FileStore, data: bytes | pyarrow.Buffer) -> None:
    store.write("state/3/claims-000000001.arrow", data)
    assert content(store, "state/3/claims-000000001.arrow") == bytes(data)
    assert store.sizes("state") == {"state/3/claims-000000001.arrow": len(bytes(data))}


def test_a_part_of_a_file_is_read_and_what_is_beyond_its_end_left_out(store: FileStore) -> None:
    data = bytes(range(200))
    store.write("state/3/000000001.arrow", data)
    for first, size in ((0, None), (64, 64), (64, None), (190, 64), (200, 1), (3, 0)):
        part: bytes = store.read("state/3/000000001.arrow", first, size).to_pybytes()
        assert part == (data[first:] if size is None else data[first : first + size])


def test_files_are_listed_below_their_folder_only(store: FileStore) -> None:
    names = ["commits/1.json", "commits-of-others/1.json", "tables/a/day=other/1-2.parquet", "tables/ab/1.parquet"]
    for name in names:
        store.write(name, name.encode())
    assert set(store.sizes("commits")) == {names[0]}
    assert set(store.sizes("tables")) == set(names[2:])
    assert set(store.sizes("tables/a")) == {names[2]}


def test_a_file_is_replaced_and_removed(store: FileStore) -> None:
    for data in (b"first", b"second"):
        store.write("commits/1.json", data)
        assert content(store, "commits/1.json") == data
    store.remove("commits/1.json")
    store.remove("commits/1.json")
    assert store.sizes("commits") == {}


def test_a_file_that_was_read_stays_as_it_was_when_it_is_replaced_or_removed(store: FileStore) -> None:
    store.write("state/1/run.arrow", b"before")
    read = store.read("state/1/run.arrow")
    store.write("state/1/run.arrow", b"after!")
    store.remove("state/1/run.arrow")
    assert read.to_pybytes() == b"before"


@pytest.mark.parametrize("make", [in_folder, on_s3])
def test_writers_of_one_file_at_a_time_leave_one_whole_file(s3: None, tmp_path: Path, make: Make) -> None:
    store = make(tmp_path)
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: store.write("tables/records/1-2.parquet", data), contents))
    assert content(store, "tables/records/1-2.parquet") in contents
    assert set(store.sizes("tables")) == {"tables/records/1-2.parquet"}


@pytest.mark.parametrize("make", [in_folder, on_s3])
def test_another_process_opens_the_same_store_by_its_location(s3: None, tmp_path: Path, make: Make) -> None:
    store = make(tmp_path)
    store.write("commits/1.json", b"1")
    assert content(open_store(store.location), "commits/1.json") == b"1"


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(s3: None, tmp_path: Path) -> None:
    nowhere = open_store("s3://no-such-bucket/audit")
    (tmp_path / "file").touch()
    for store in (nowhere, LocalFiles(tmp_path / "file")):
        with pytest.raises(OSError, match=r"\w"):
            store.write("commits/1.json", b"1")
        assert store.sizes("commits") == {}


@pytest.mark.parametrize("make", [in_folder, on_s3])
def test_an_audit_has_the_same_result_and_state_wherever_its_files_are(s3: None, tmp_path: Path, make: Make) -> None:
    cluster, logs = draw(5, steps=100, partitions=3), tmp_path / "logs"
    second_leader_by_an_agent(cluster)
    write_logs(cluster.logs, logs)
    there, here = make(tmp_path / "there").location, tmp_path / "here"
    assert audit_folder(logs, there, 20_000) == audit_folder(logs, here, 20_000)
    folders = [OutputFolder(there), OutputFolder(here)]
    assert len({msgspec.json.encode(folder.last_commit()) for folder in folders}) == 1
    assert len({str(list(folder.rows(FINDINGS_TABLE))) for folder in folders}) == 1
    assert folders[0].files.sizes("state") == folders[1].files.sizes("state")


@pytest.mark.parametrize("uri", ["no-such-scheme://a/b", "s3://", "s3://key:secret@bucket/audit"])
def test_a_location_that_is_none_is_named_and_no_password_is_shown(uri: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_store(uri)
    assert uri.partition(":")[0] in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_uri_of_a_file_is_a_folder_of_this_machine(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    assert store.location == str(tmp_path)
    assert not is_remote(tmp_path.as_uri())
    assert os.path.isabs(store.location)
