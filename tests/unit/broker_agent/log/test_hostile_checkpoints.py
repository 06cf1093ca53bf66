"""Checkpoints and names in a partition directory beyond their bounds count as malformed, or are left alone."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log import checkpoints
from broker_agent.log.checkpoints import MalformedCheckpointError
from broker_agent.log.config import LogConfig
from broker_agent.log.cut_markers import find_cut_markers
from broker_agent.log.log_metrics import LogMetrics
from broker_agent.log.recovery import CheckpointedOffsets, load_log
from broker_agent.log.segments import LogDependencies
from cluster.metrics.registry import Metrics
from simulator.cluster import VirtualClock
from simulator.disk import SimulatedDisk
from tests.brokers.agents import virtually

DIGITS = "9" * 5000


def lines(*rows: str) -> bytes:
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()


@pytest.mark.rule("BD-7", "R9.7")
@pytest.mark.parametrize(
    "row",
    [
        f"t 0 {DIGITS}",
        f"t {DIGITS} 0",
        "t -1 0",
        "t 2147483648 0",
        "t 0 9223372036854775808",
        "t 0 -1",
        "../x 0 0",
        ".. 0 0",
        "\0 0 0",
        f"{'a' * 250} 0 0",
        "t\u0660 0 0",
        "t 0 ٣",
    ],
    ids=lambda row: repr(row[:20]),
)
def test_an_offset_checkpoint_beyond_the_bounds_is_malformed(row: str) -> None:
    with pytest.raises(MalformedCheckpointError) as caught:
        checkpoints.decode_offsets(lines(row))
    assert len(str(caught.value)) < 300


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize("row", [f"{DIGITS} 0", f"0 {DIGITS}", "2147483648 0", "0 9223372036854775808", "-1 0"])
def test_a_leader_epoch_checkpoint_beyond_the_bounds_is_malformed(row: str) -> None:
    with pytest.raises(MalformedCheckpointError):
        checkpoints.decode_epochs(lines(row))


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize(
    "content",
    [
        f"version=0\nbroker.id={DIGITS}\ncluster.id=c\n",
        "version=0\nbroker.id=-5\ncluster.id=c\n",
        "version=0\nbroker.id=2147483648\ncluster.id=c\n",
        f"version=0\nbroker.id=1\ncluster.id={'c' * 300}\n",
        "version=0\nbroker.id=1\ncluster.id=a b\n",
        f"{DIGITS}={DIGITS}",
        "version=0\nbroker.id=1\ncluster.id=\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda content: repr(content[:40]),
)
def test_meta_properties_beyond_the_bounds_are_malformed(content: str) -> None:
    with pytest.raises(MalformedCheckpointError):
        checkpoints.decode_meta_properties(content.encode("utf-8"))


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize("topic_id", ["x", "a" * 23, "a" * 21 + "/", "a b" + "c" * 19, DIGITS])
def test_a_topic_id_of_another_form_is_malformed(topic_id: str) -> None:
    with pytest.raises(MalformedCheckpointError):
        checkpoints.decode_partition_metadata(f"version: 0\ntopic_id: {topic_id}".encode())


DECODERS = (
    checkpoints.decode_offsets,
    checkpoints.decode_epochs,
    checkpoints.decode_meta_properties,
    checkpoints.decode_partition_metadata,
)


@given(st.binary(max_size=60) | st.text(alphabet="01 -\n=:tvbrokesin.", max_size=60).map(str.encode))
@pytest.mark.parametrize("decode", DECODERS)
def test_a_checkpoint_is_read_or_malformed(decode: "object", content: bytes) -> None:
    try:
        decode(content)  # type: ignore[operator]
    except MalformedCheckpointError:
        return


@pytest.mark.rule("BD-7", "R9.15")
@pytest.mark.parametrize(
    "name",
    ["²" * 20, "٣" * 20, "9" * 20, "-" + "1" * 19, "x", "1"],
)
@virtually
async def test_files_with_other_names_in_a_partition_directory_are_left_alone(name: str) -> None:
    disk = SimulatedDisk(VirtualClock(), Random(1))
    disk.make_directory("/data/t-0")
    names = [f"/data/t-0/{name}{suffix}" for suffix in (".log", ".truncated", ".snapshot")]
    for path in names:
        disk.open_file(path).append([b"x"])
    dependencies = LogDependencies(disk, VirtualClock(), Random(1), LogMetrics(Metrics(), per_partition=False))
    loaded = load_log(dependencies, "/data/t-0", LogConfig(), CheckpointedOffsets(), is_clean=False)
    assert loaded.end_offset == 0
    assert all(disk.read_file(path) == b"x" for path in names)
    assert find_cut_markers("/data/t-0", disk.list_directory("/data/t-0")) == {}
