"""The benchmark of compaction cleans the log that it makes, and counts what is left."""

from pathlib import Path

import pytest

from benchmarks.compaction import TP, clean_once
from benchmarks.compaction_data import DataSize, survivors, write_log
from cluster.model.compression import CompressionCodec


@pytest.mark.parametrize("compression", [CompressionCodec.NONE, CompressionCodec.LZ4])
async def test_one_record_of_each_key_is_left(tmp_path: Path, compression: CompressionCodec) -> None:
    size = DataSize(3000, keys=40, value_bytes=20, segment_bytes=20_000, compression=compression)
    said: list[str] = []
    active = write_log(tmp_path / "data" / str(TP), size, said.append)
    assert active == 3000
    assert said
    before = survivors(tmp_path / "data" / str(TP), active)
    assert before.records == 3000
    found = await clean_once(str(tmp_path / "data"), size.segment_bytes)
    assert set(found) == {"seconds", "cpu_seconds", "peak_mb", "before_mb"}
    left = survivors(tmp_path / "data" / str(TP), active)
    assert left.records == 40
    assert left.bytes < before.bytes / 10
    assert left.digest != before.digest
