"""The fault corpus on Spark: all faults in one session, and in the deep suite each in a session of its own."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.audit_corpus.clean_logs import simulated_logs
from tests.audit_corpus.fault import differences
from tests.audit_corpus.faults import FAULTS
from tests.audit_corpus.logs import MINUTES, SEED
from tests.audit_corpus.on_spark import audit_on_spark

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def sound_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_logs(tmp_path_factory.mktemp("simulated"), SEED, "--minutes", MINUTES)


@pytest.mark.parametrize("name", list(FAULTS))
def test_spark_says_exactly_what_a_fault_is(name: str, spark: SparkSession, sound_logs: Path, tmp_path: Path) -> None:
    assert differences(FAULTS[name], audit_on_spark(FAULTS[name], sound_logs, tmp_path / "audit", spark)) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", list(FAULTS))
def test_spark_says_it_in_a_session_of_its_own(name: str, sound_logs: Path, tmp_path: Path) -> None:
    assert differences(FAULTS[name], audit_on_spark(FAULTS[name], sound_logs, tmp_path / "audit")) == []
