"""How the last process ended, also where the next one ends at any step of finding out."""

import errno
from itertools import count
from random import Random

import pytest

from broker_agent.log.checkpoints import (
    BOOT_ID,
    CLEAN_MARKER,
    MalformedCheckpointError,
    decode_boot_id,
    encode_boot_id,
    encode_clean_marker,
)
from broker_agent.log.shutdowns import LastShutdown, store_boot_id, take_last_shutdown
from cluster.model.broker import BrokerEpoch, LeaderEpoch
from cluster.model.errors import ClusterError
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import TP, InMemoryWorld, Node, TestClock, fill

PATH = "/data"
CLEAN, KILLED, UNCLEAN = LastShutdown


class DyingDisk(SimulatedDisk):
    """A disk whose process ends at one of the next operations."""

    operations_left = 1 << 30

    def check(self, path: str) -> None:
        self.operations_left -= 1
        if self.operations_left < 0:
            raise OSError(errno.EIO, "the process is gone", path)
        super().check(path)


def disk_of(*, clean: bool, boot_id: str | None) -> DyingDisk:
    disk = DyingDisk(TestClock(), Random(1))
    disk.make_directory(PATH)
    if clean:
        disk.open_file(f"{PATH}/{CLEAN_MARKER}").append([encode_clean_marker(BrokerEpoch(7))])
    if boot_id is not None:
        store_boot_id(disk, PATH, boot_id)
    return disk


@pytest.mark.rule("D-119", "R9.4", "R9.13")
@pytest.mark.parametrize(
    ("clean", "stored", "now", "expected"),
    [
        (True, "a", "a", CLEAN),
        (True, "a", "b", CLEAN),
        (True, None, "b", CLEAN),
        (True, "a", "", CLEAN),
        (False, "a", "a", KILLED),
        (False, "a", "b", UNCLEAN),
        (False, None, "b", UNCLEAN),
        (False, "a", "", UNCLEAN),
        (False, "", "", UNCLEAN),
        (False, None, "", UNCLEAN),
    ],
)
def test_marker_and_boot_tell_how_the_last_process_ended(
    clean: bool, stored: str | None, now: str, expected: LastShutdown
) -> None:
    disk = disk_of(clean=clean, boot_id=stored)
    assert take_last_shutdown(disk, PATH, now) is expected
    assert disk.read_file(f"{PATH}/{CLEAN_MARKER}") is None
    # After a clean shutdown this boot is known; in doubt it is not, before the caller has written down what is.
    known = decode_boot_id(disk.read_file(f"{PATH}/{BOOT_ID}"))
    assert known == (now if expected is not UNCLEAN else stored or "")


@pytest.mark.rule("D-119", "R9.13a")
def test_a_process_that_ends_while_it_takes_the_marker_causes_no_doubt() -> None:
    for step in count():
        disk = disk_of(clean=True, boot_id="a")
        disk.operations_left = step
        try:
            take_last_shutdown(disk, PATH, "b")
        except OSError:
            disk.operations_left = 1 << 30
            disk.lose_power()
            assert take_last_shutdown(disk, PATH, "b") is not UNCLEAN, step
            continue
        assert step > 5
        break


@pytest.mark.rule("D-119", "R9.13a")
async def test_a_start_that_ends_at_any_step_leaves_the_doubt_to_the_next_one() -> None:
    for step in count():
        world = InMemoryWorld()
        world.disk = disk = DyingDisk(TestClock(), Random(1))
        node = Node(world, PATH)
        await node.start()
        fill(await node.log(), LeaderEpoch(1), count=3)
        world.crash()
        disk.operations_left = step
        is_over = False
        try:
            await node.start()
            is_over = not node.failures
        except (ClusterError, OSError):
            pass
        disk.operations_left = 1 << 30
        disk.kill_process()
        (found,) = (await node.start()).damaged_replicas
        assert (found.topic_partition, found.is_in_doubt) == (TP, True), step
        if is_over:
            assert step > 10
            return


@pytest.mark.rule("D-119")
@pytest.mark.parametrize(
    "content", [b"0\n1\na b\n", b"0\n2\na\nb\n", b"1\n1\na\n", b"\xff", b"0\n1\n" + b"a" * 65 + b"\n"]
)
def test_a_malformed_boot_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedCheckpointError):
        decode_boot_id(content)


def test_a_boot_comes_back_as_it_was_stored() -> None:
    for boot_id in ("", "0f0b6f5e-5ee3-4a49-8a55-b7c4ee9ae9e5"):
        assert decode_boot_id(encode_boot_id(boot_id)) == boot_id
    assert decode_boot_id(None) == ""
