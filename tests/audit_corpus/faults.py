"""All faults of the corpus, by name."""

from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_brokers import FAULTS_OF_BROKERS
from tests.audit_corpus.faults_of_controllers import FAULTS_OF_CONTROLLERS
from tests.audit_corpus.faults_of_decisions import FAULTS_OF_DECISIONS
from tests.audit_corpus.faults_of_files import FAULTS_OF_FILES
from tests.audit_corpus.faults_of_heads import FAULTS_OF_HEADS
from tests.audit_corpus.faults_of_histories import FAULTS_OF_HISTORIES
from tests.audit_corpus.faults_of_isrs import FAULTS_OF_ISRS
from tests.audit_corpus.faults_of_lines import FAULTS_OF_LINES
from tests.audit_corpus.faults_of_moves import FAULTS_OF_MOVES
from tests.audit_corpus.faults_of_offsets import FAULTS_OF_OFFSETS
from tests.audit_corpus.faults_of_records import FAULTS_OF_RECORDS
from tests.audit_corpus.faults_of_runs import FAULTS_OF_RUNS
from tests.audit_corpus.faults_of_terms import FAULTS_OF_TERMS
from tests.audit_corpus.faults_of_topics import FAULTS_OF_TOPICS

FAULTS: Final[dict[str, Fault]] = (
    FAULTS_OF_LINES
    | FAULTS_OF_FILES
    | FAULTS_OF_RECORDS
    | FAULTS_OF_HISTORIES
    | FAULTS_OF_HEADS
    | FAULTS_OF_ISRS
    | FAULTS_OF_DECISIONS
    | FAULTS_OF_CONTROLLERS
    | FAULTS_OF_BROKERS
    | FAULTS_OF_OFFSETS
    | FAULTS_OF_MOVES
    | FAULTS_OF_TOPICS
    | FAULTS_OF_RUNS
    | FAULTS_OF_TERMS
)
