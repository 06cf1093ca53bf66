"""The logs of simulated clusters have no finding, but for what power failures took: a few seeds, and two hundred."""

import pytest

from audit.records.findings import CLEAN, FINDINGS
from tests.audit_corpus.clean_logs import audits_of_seeds


@pytest.mark.parametrize("seed", [5, 23, 53, 104])
def test_only_what_power_failures_took_is_found_in_the_logs_of_a_simulated_cluster(seed: int) -> None:
    """That it was a power failure is in the logs: the machine of another replica was restarted before."""
    (audit,) = audits_of_seeds([seed])
    assert audit.unexplained == []
    assert audit.result.verdict == (FINDINGS if audit.of_power_failures else CLEAN)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_only_what_power_failures_took_is_found_in_the_logs_of_two_hundred_simulated_clusters() -> None:
    assert [audit for audit in audits_of_seeds(range(1, 201)) if audit.unexplained] == []
