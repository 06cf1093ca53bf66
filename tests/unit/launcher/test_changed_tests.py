"""Which tests `klamm test --changed` selects: all that a change can reach, and not all there are."""

import pytest

from cluster.model.errors import StartupError
from launcher.changed_tests import changed_files, selected_tests, with_other_imports

WHOLE_TREE = "tests/unit/test_vocabulary.py"


@pytest.mark.parametrize(
    ("changed", "selected"),
    [
        ("controller/decisions/partitions/isr_change.py", "tests/unit/controller/test_isr_change.py"),
        # Through the programs that a helper of the test runs on virtual time.
        ("controller/decisions/partitions/isr_change.py", "tests/conformance/controller/test_election.py"),
        # Processes of a cluster, which no import of the test shows.
        ("broker_agent/log/segment.py", "tests/end_to_end/test_local_cluster.py"),
        ("launcher/audits.py", "tests/end_to_end/test_local_cluster.py"),
        # What the commands run whose arguments the test names, or a module in a string.
        ("audit/verification.py", "tests/end_to_end/test_witnesses.py"),
        ("audit/rules/intervals.py", "tests/integration/audit/test_audit_command.py"),
        ("audit/spark/log4j2.properties", "tests/integration/audit/test_exactly_once.py"),
        ("adoption/survey.py", "tests/integration/test_adoption_execution.py"),
        ("tests/controllers/elections.py", "tests/conformance/controller/test_causes.py"),
        ("tests/conftest.py", "tests/unit/audit/test_durations.py"),
        ("docs/operating.md", "tests/documents/test_documents.py"),
        ("cluster/metrics/metrics.toml", WHOLE_TREE),
        ("audit/a_file_that_is_there_no_longer.py", WHOLE_TREE),
    ],
)
def test_what_a_change_can_reach_is_selected(changed: str, selected: str) -> None:
    assert selected in selected_tests([changed])


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        ("audit/rules/intervals.py", "tests/unit/broker_agent/decisions/test_isr.py"),
        ("audit/rules/intervals.py", "tests/end_to_end/test_outages.py"),
        # They run `audit verify` and `audit heads`, which judge no records; the second names an extra of the wheel.
        ("audit/rules/intervals.py", "tests/end_to_end/test_witnesses.py"),
        ("audit/rules/intervals.py", "tests/unit/launcher/test_bootstrap.py"),
        ("broker_agent/log/segment.py", "tests/unit/controller/test_isr_change.py"),
        ("controller/decisions/partitions/isr_change.py", "tests/unit/audit/test_durations.py"),
        ("docs/operating.md", "tests/end_to_end/test_outages.py"),
    ],
)
def test_what_a_change_cannot_reach_is_left_out(changed: str, left_out: str) -> None:
    selected = selected_tests([changed])
    assert selected
    assert left_out not in selected


def test_an_installation_is_tried_where_files_or_imports_are_others() -> None:
    changed, selected = "audit/rules/intervals.py", "tests/end_to_end/test_installed_wheel.py"
    assert selected not in selected_tests([changed])
    assert selected in selected_tests([changed], other_imports=[changed])
    assert selected in selected_tests(["audit/a_file_that_is_there_no_longer.py"])
    assert with_other_imports([changed, "audit/a_file_that_is_there_no_longer.py"], "HEAD") >= {
        "audit/a_file_that_is_there_no_longer.py"
    }


def test_what_only_tests_of_the_deep_suite_name_is_selected_with_them() -> None:
    changed, selected = ["audit/rules/intervals.py"], "tests/end_to_end/test_local_cluster.py"
    assert selected not in selected_tests(changed)
    assert selected in selected_tests(changed, deep=True)


def test_what_all_depends_on_selects_all() -> None:
    everything = selected_tests(["pyproject.toml"])
    assert "tests/unit/audit/test_durations.py" in everything
    assert "tests/end_to_end/test_outages.py" in everything
    assert selected_tests([]) == []


def test_an_unknown_commit_is_named() -> None:
    with pytest.raises(StartupError, match="--since no-such-commit"):
        changed_files("no-such-commit")
