"""Topics without ids that are deleted and created anew: no false findings, in whatever order the records arrive."""

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.batches.bucket import BucketPlace, write_findings
from audit.records.findings import NOT_COMPARED
from audit.report.report import read_result
from audit.rules.recreations import CREATED_ANEW
from audit.rules.unclean_elections import UNCLEAN_ELECTION
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from cluster.model.broker import LeaderEpoch
from state_log.record import Kind, LoggedStateChange, StateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.state_change_histories import Cluster, shuffled, stamped
from tests.examples import examples
from tests.unit.audit.rules.test_recreations import ABSENT, NEW, OFFLINE, record
from tests.unit.audit.test_rules import in_batches

SEEDS = st.integers(0, 2**32)


def with_deletions(seed: int, *, then_created: bool = True) -> Cluster:
    """A correct history in which partition 0 is deleted, and created anew by whoever is the controller then."""
    random = Random(seed)
    cluster = Cluster(random, partitions=2)
    for number in range(random.randrange(2, 5) if then_created else 1):
        for _ in range(random.randrange(1, 40)):
            cluster.step()
        partition = cluster.partitions[0]
        if partition.state is not None:
            for broker in list(partition.agent_epochs):
                gone = StateChange(kind=Kind.ROLE, topic="orders", partition=0, broker=broker, to_state="deleted")
                cluster.logs[cluster.agents[broker]].append(gone)
            cluster._go_offline(partition)
            cluster._say(Kind.PARTITION, partition, from_state="OfflinePartition", to_state="NonExistentPartition")
            partition.state, partition.agent_epochs = None, {}
        if then_created:
            cluster._initialise(partition)
        elif number:
            break
    return cluster


@examples(24, deep=150)
@given(seed=SEEDS)
def test_a_partition_created_anew_without_an_id_gives_no_false_finding_in_any_order(seed: int) -> None:
    random, streams = Random(seed), stamped(with_deletions(seed).logs)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check([record for stream in streams for record in stream])
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
    # Some histories have unclean elections, of partitions that are compared.
    found = [finding for finding in whole.findings.values() if finding.rule != UNCLEAN_ELECTION]
    assert {finding.rule for finding in found} <= {CREATED_ANEW}
    assert {finding.partition for finding in found} <= {0}


@examples(24, deep=60)
@given(seed=SEEDS)
def test_contradictions_are_found_where_nothing_was_created_anew_and_the_same_in_any_order(seed: int) -> None:
    random, streams = Random(seed), stamped(with_deletions(seed).logs)
    streams = [[contradicted(record, random) for record in stream] for stream in streams]
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check([record for stream in streams for record in stream])
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings


def contradicted(record: LoggedStateChange, random: Random) -> LoggedStateChange:
    if record.leader_epoch is None or record.leader_epoch < 0 or random.random() > 0.1:
        return record
    return replace(record, leader_epoch=LeaderEpoch(record.leader_epoch + 3))


@examples(12, deep=30)
@given(seed=SEEDS)
def test_a_partition_that_is_only_deleted_is_compared_as_any_other(seed: int) -> None:
    cluster = with_deletions(seed, then_created=False)
    audit = ColumnarAudit()
    audit.check([record for stream in stamped(cluster.logs) for record in stream])
    assert {finding.rule for finding in audit.findings.values()} <= {UNCLEAN_ELECTION}


def test_what_is_not_compared_makes_the_audit_incomplete(tmp_path: Path) -> None:
    audit, folder = ColumnarAudit(), OutputFolder(tmp_path)
    found = audit.check(
        [record(0, from_state=OFFLINE, to_state=ABSENT), record(1, from_state=ABSENT, to_state=NEW, replicas=(1,))]
    )
    assert [finding.status for finding in found] == [NOT_COMPARED]
    write_findings(folder, BucketPlace(0, 0), found)
    folder.commit(Commit(VERSION, 0, "", {}, records=2))
    result = read_result(tmp_path)
    assert (result.verdict, result.findings) == ("incomplete", {})
    assert [gap.what for gap in result.incomplete] == ["t-0 created anew"]
