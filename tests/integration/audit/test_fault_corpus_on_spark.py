"""The fault corpus on Spark: some faults in one session, and in the deep suite each in a session of its own.

The rules are the same code in process, where every fault is checked each time (tests/unit/audit/test_fault_corpus.py).
Spark adds the reading, the tasks and the tables.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.audit_corpus.fault import differences
from tests.audit_corpus.faults import FAULTS
from tests.audit_corpus.logs import SOUND_LOGS
from tests.audit_corpus.on_spark import audit_on_spark

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", list(FAULTS)[::60])
def test_spark_says_exactly_what_a_fault_is(name: str, spark: SparkSession, tmp_path: Path) -> None:
    assert differences(FAULTS[name], audit_on_spark(FAULTS[name], SOUND_LOGS, tmp_path / "audit", spark)) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", list(FAULTS))
def test_spark_says_it_in_a_session_of_its_own(name: str, tmp_path: Path) -> None:
    assert differences(FAULTS[name], audit_on_spark(FAULTS[name], SOUND_LOGS, tmp_path / "audit")) == []
