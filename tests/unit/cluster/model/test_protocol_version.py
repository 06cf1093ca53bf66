"""Inter-broker protocol versions and what they enable."""

import pytest

from cluster.model.protocol_version import NEWEST, ProtocolVersion


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.10.0-IV1", "0.10.2-IV0"),
        ("0.11.0", "1.0-IV0"),
        ("2.7-IV1", "2.7-IV2"),
        ("2.7-IV2", "2.7"),
        ("2.7", "2.8-IV0"),
    ],
)
def test_versions_are_ordered_as_they_were_released(older: str, newer: str) -> None:
    assert ProtocolVersion.parse(older) < ProtocolVersion.parse(newer)
    assert not ProtocolVersion.parse(newer) <= ProtocolVersion.parse(older)


@pytest.mark.parametrize("text", ["", "3", "x.y", "2.7-IV", "2.7-IVx", "0.10", "4.0", "2.7-IV2-IV3", "-1.2"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        ProtocolVersion.parse(text)


def test_a_bug_fix_release_speaks_the_protocol_of_its_release() -> None:
    assert ProtocolVersion.parse("3.4.1") == ProtocolVersion.parse("3.4")


@pytest.mark.parametrize(
    ("name", "last_without", "first_with"),
    [
        ("has_features", "2.6", "2.7-IV0"),
        ("has_alter_partition", "2.7-IV1", "2.7-IV2"),
        ("assigns_topic_ids", "2.7", "2.8-IV0"),
        ("sends_topic_ids", "2.8-IV0", "2.8-IV1"),
        ("has_leader_recovery_state", "3.1", "3.2-IV0"),
    ],
)
def test_a_feature_begins_with_its_version(name: str, last_without: str, first_with: str) -> None:
    assert not getattr(ProtocolVersion.parse(last_without), name)
    assert getattr(ProtocolVersion.parse(first_with), name)
    assert getattr(NEWEST, name)


@pytest.mark.parametrize(
    ("text", "registration", "features"),
    [("0.9.0", 2, 1), ("0.10.0-IV0", 2, 1), ("0.10.0-IV1", 4, 1), ("2.7-IV0", 5, 1), ("3.3-IV0", 5, 2)],
)
def test_node_versions_follow_the_protocol(text: str, registration: int, features: int) -> None:
    version = ProtocolVersion.parse(text)
    assert (version.registration_version, version.feature_znode_version) == (registration, features)
    assert str(version) == text
