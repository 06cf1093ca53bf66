"""The clusters of the matrix, as they are chosen; they themselves run by `python -m tests.kafka_matrix`."""

from itertools import chain
from pathlib import Path

import pytest

from tests.kafka_matrix import axes
from tests.kafka_matrix.axes import Cluster, all_clusters, clusters, impossible_pairs, pairs_of, why_excluded
from tests.kafka_matrix.results import Row, read, table, write_document
from tests.kafka_matrix.settings import listeners, super_users


@pytest.fixture(scope="module")
def chosen() -> list[Cluster]:
    return clusters()


def test_every_pair_of_values_is_in_a_cluster_or_impossible_for_a_reason(chosen: list[Cluster]) -> None:
    every = set(chain.from_iterable(map(pairs_of, all_clusters())))
    covered = set(chain.from_iterable(map(pairs_of, chosen)))
    impossible = impossible_pairs()
    assert every - covered == set(impossible)
    reasons = {one.reason for one in axes.EXCLUSIONS}
    assert set(impossible.values()) <= reasons


def test_there_are_at_least_forty_clusters_and_none_is_excluded(chosen: list[Cluster]) -> None:
    assert len(set(chosen)) == len(chosen) >= axes.AT_LEAST
    assert [one for one in chosen if why_excluded(one)] == []
    assert len(set(clusters(len(chosen) + 3))) == len(chosen) + 3


def test_each_exclusion_excludes_something_of_its_own() -> None:
    for one in axes.EXCLUSIONS:
        others = [other for other in axes.EXCLUSIONS if other is not one]
        found = (c for c in all_clusters() if one.excludes(c) and not any(other.excludes(c) for other in others))
        assert next(found, None) is not None, one.reason


def test_a_mechanism_is_at_a_listener_of_every_cluster_that_has_one(chosen: list[Cluster]) -> None:
    for cluster in chosen:
        has_sasl = any(one.has_sasl for one in listeners(cluster))
        assert has_sasl == (cluster.mechanism != axes.NO_MECHANISM), cluster.name


def test_brokers_are_super_users_under_the_name_that_they_have() -> None:
    cluster = Cluster("3.9.1", axes.MUTUAL, axes.NO_MECHANISM, axes.SUPER_USERS, axes.OPEN, axes.DN_PER_BROKER)
    assert super_users(cluster) == "User:broker1;User:broker2;User:broker3;User:CN=admin"


def test_the_table_has_a_row_for_each_cluster(tmp_path: Path, chosen: list[Cluster]) -> None:
    first, second, third = chosen[:3]
    rows = [
        Row(first.name, passed=False, result="lost", seconds=1.0, commit="a", date="2026-01-01"),
        Row(first.name, passed=True, result="700 records", seconds=44.4, commit="b", date="2026-01-02"),
        Row(second.name, passed=False, result="lost", seconds=9.0, commit="b", date="2026-01-03"),
    ]
    file = tmp_path / "results.jsonl"
    file.write_text("".join(map(Row.to_line, rows)))
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- begin matrix: python -m tests.kafka_matrix --write -->\nwhat was\n<!-- end matrix -->\nafter\n"
    )
    write_document([first, second, third], read(file), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end matrix -->\nafter\n")
    assert "what was" not in text
    assert "1 of 3 clusters passed, 1 failed; 2026-01-02 to 2026-01-03." in text
    lines = text.splitlines()
    assert any(line.endswith("| adopted, governed, left; 700 records | 44 |") for line in lines)
    assert any(line.endswith("| failed: lost | 9 |") for line in lines)
    assert any(line.endswith("| not run |  |") for line in lines)
    assert table([first, second, third], rows) in text


def test_the_page_keeps_the_result_of_a_cluster_that_did_not_run_again(tmp_path: Path, chosen: list[Cluster]) -> None:
    first, second = chosen[:2]
    page = tmp_path / "page.md"
    page.write_text("<!-- begin matrix: python -m tests.kafka_matrix --write -->\n<!-- end matrix -->\n")
    old = Row(first.name, passed=True, result="700 records", seconds=44.4, commit="a", date="2026-01-02")
    write_document([first, second], [old], page)
    new = Row(second.name, passed=False, result="lost", seconds=9.0, commit="b", date="2026-01-05")
    write_document([first, second], [new], page)
    text = page.read_text()
    assert "1 of 2 clusters passed, 1 failed; 2026-01-02 to 2026-01-05." in text
    assert f"| {' | '.join(first)} | adopted, governed, left; 700 records | 44 |" in text
    assert f"| {' | '.join(second)} | failed: lost | 9 |" in text


def test_further_clusters_have_what_the_axes_do_not() -> None:
    for cluster in axes.FURTHER:
        assert cluster.mechanism in {axes.GSSAPI, axes.OAUTHBEARER}
        assert any(one.has_sasl for one in listeners(cluster))
    assert {one.release for one in axes.FURTHER if one.mechanism == axes.GSSAPI} == set(axes.AXES["release"])
    assert not set(axes.FURTHER) & set(clusters())
