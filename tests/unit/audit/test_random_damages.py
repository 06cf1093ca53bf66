"""Logs that were damaged at random are not clean if the audit is given heads, whatever was done to which of them."""

import pytest

from audit.records.findings import CLEAN
from tests.audit_corpus.random_damages import verdicts_of


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 300))])
def test_damaged_logs_are_not_clean(seed: int) -> None:
    said = verdicts_of(seed)
    assert CLEAN not in {said.audited, said.verified}, said
