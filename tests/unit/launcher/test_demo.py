"""The demonstration's comparison must be able to fail."""

import pytest

from launcher.demo import Comparison, compare


@pytest.mark.parametrize(
    ("acknowledged", "read", "expected"),
    [
        ({0: [b"a", b"b"]}, {0: [b"a", b"b"]}, Comparison(2, 0, 0, 0)),
        ({0: [b"a", b"b"]}, {0: [b"a"]}, Comparison(1, 1, 0, 0)),
        ({0: [b"a"]}, {}, Comparison(0, 1, 0, 0)),
        ({0: [b"a", b"b"]}, {0: [b"a", b"a", b"b", b"b"]}, Comparison(2, 0, 2, 0)),
        ({0: [b"a", b"b", b"c"]}, {0: [b"b", b"a", b"c"]}, Comparison(3, 0, 0, 1)),
        ({0: [b"a"]}, {1: [b"a"]}, Comparison(0, 1, 0, 0)),
        ({0: [b"a"]}, {0: [b"never acknowledged", b"a"]}, Comparison(1, 0, 0, 0)),
        ({0: [b"a", b"b"]}, {0: [b"a", b"b", b"a"]}, Comparison(2, 0, 1, 0)),
        ({}, {}, Comparison(0, 0, 0, 0)),
    ],
)
def test_comparison_tells_lost_repeated_and_misplaced_lines(
    acknowledged: dict[int, list[bytes]], read: dict[int, list[bytes]], expected: Comparison
) -> None:
    assert compare(acknowledged, read) == expected
