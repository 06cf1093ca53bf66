import pytest

from broker_agent.log.directory_names import DirectoryKind, DirectoryName, deleted_name, parse_directory_name
from cluster.model.partition import TopicPartition

UNIQUE = "0123456789abcdef" * 2


@pytest.mark.rule("R9.14")
@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", (("orders", 0), DirectoryKind.CURRENT)),
        ("eu-orders-12", (("eu-orders", 12), DirectoryKind.CURRENT)),
        ("a.b-1", (("a.b", 1), DirectoryKind.CURRENT)),
        (f"orders-0.{UNIQUE}-delete", (("orders", 0), DirectoryKind.DELETED)),
        (f"a.b-1.{UNIQUE}-future", (("a.b", 1), DirectoryKind.FUTURE)),
        (f"orders-0.{UNIQUE}-stray", (("orders", 0), DirectoryKind.STRAY)),
        ("orders-2147483647", (("orders", 2**31 - 1), DirectoryKind.CURRENT)),
        ("orders-2147483648", None),
        (f"orders-{'9' * 200}", None),
        ("orders-01", None),
        ("orders-٣", None),
        ("a b-1", None),
        ("..-1", None),
        ("--1", (("-", 1), DirectoryKind.CURRENT)),
        (f"..-1.{UNIQUE}-delete", None),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-0-delete", None),
        ("orders-0.abc-delete", None),
        (f"orders-0{UNIQUE}-delete", None),
    ],
)
def test_directory_names_say_what_is_in_them(name: str, parsed: tuple[tuple[str, int], DirectoryKind] | None) -> None:
    expected = None if parsed is None else DirectoryName(TopicPartition(*parsed[0]), parsed[1])
    assert parse_directory_name(name) == expected


@pytest.mark.rule("R10.16")
def test_a_name_that_would_be_too_long_loses_the_end_of_its_topic() -> None:
    assert deleted_name(TopicPartition("t", 3), UNIQUE) == f"t-3.{UNIQUE}-delete"
    long = deleted_name(TopicPartition("t" * 249, 3), UNIQUE)
    assert len(long) == 255
    assert long.endswith(f"t-3.{UNIQUE}-delete")
