"""Whether there is room for records, and for a compaction."""

import pytest

from broker_agent.decisions.disk_room import (
    DEFAULT_BYTES,
    DiskRoom,
    has_room_to_clean,
    is_short,
    reserve_of,
    room_to_try,
)

UNKNOWN = DiskRoom(-1, -1)


@pytest.mark.rule("FD-9")
@pytest.mark.parametrize(
    ("configured", "total", "reserve"),
    [
        (None, 1 << 40, DEFAULT_BYTES),
        (None, 100 << 20, 5 << 20),
        (None, -1, DEFAULT_BYTES),
        (None, 0, 0),
        (0, 1 << 40, 0),
        (7, 10, 7),
    ],
    ids=["default", "a small file system", "an unknown one", "one without a byte", "off", "as it is set"],
)
def test_the_reserve_is_as_set_or_a_part_of_a_small_file_system(
    configured: int | None, total: int, reserve: int
) -> None:
    assert reserve_of(configured, total) == reserve


@pytest.mark.rule("FD-9")
@pytest.mark.parametrize(
    ("free", "was_short", "short"),
    [(100, False, False), (99, False, True), (124, True, True), (125, True, False), (-1, True, False)],
)
def test_a_full_directory_needs_a_quarter_more_to_recover(free: int, was_short: bool, short: bool) -> None:
    assert is_short(DiskRoom(1000, free), 100, was_short=was_short) is short


@pytest.mark.rule("FD-9")
@pytest.mark.parametrize(("total", "size"), [(-1, 16 << 20), (0, 0), (1 << 40, 16 << 20), (1 << 20, 52_428)])
def test_as_much_is_tried_as_a_small_file_system_can_have(total: int, size: int) -> None:
    assert room_to_try(total) == size


@pytest.mark.rule("FD-9")
def test_a_compaction_may_take_half_of_the_reserve() -> None:
    assert has_room_to_clean(UNKNOWN, 100, 1 << 50)
    assert has_room_to_clean(DiskRoom(1000, 250), 100, 200)
    assert not has_room_to_clean(DiskRoom(1000, 249), 100, 200)
    assert has_room_to_clean(DiskRoom(1000, 249), 99, 200)
