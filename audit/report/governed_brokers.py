"""Brokers of Apache Kafka that klamm's controllers govern: logs of two kinds, one cluster.

Whether logs belong together shows only when both were read, so these findings are no rows of the findings' table.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.batches.cluster_state import ClusterState
from audit.reading.kafka.rows import kafka_keys
from audit.records.columns import partition_keys
from audit.records.findings import NOT_COMPARED, AuditFinding
from audit.records.sorted_runs import joined
from audit.records.vectors import Keys
from audit.report.open_conditions import Open, add_unwritten
from audit.rules.applied_states import APPLIED
from audit.rules.governed_brokers import Disagreement, GovernedSince, leaders_unlike, states_unlike, states_unwritten
from audit.rules.handover import states_over_handover
from audit.rules.leader_claims import CLAIMS
from audit.rules.partition_states import STATES, WRITTEN
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import FINDINGS_TABLE, TOPICS_TABLE
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH

_CONTROLLER: Final = "controller-"
_AGENT: Final = "broker-"
_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())


def governing(state: ClusterState) -> frozenset[int]:
    """The ids of klamm's controllers, if brokers of Kafka name one of them, by its id and epoch, as theirs.

    A cluster has brokers of one kind; and klamm's controllers write no logs of Kafka's kind.
    """
    nodes = {name.partition("/")[0] for name in state.incarnations}
    controllers = _controllers(nodes) - state.kafka.brokers
    named = any(_active(state, epoch) & controllers & set(ids) for epoch, ids in state.kafka.ruled.items())
    has_agents = any(node.startswith(_AGENT) for node in nodes)
    return frozenset(controllers) if named and not has_agents else frozenset()


def governed_nodes(state: ClusterState) -> frozenset[str]:
    """The nodes whose logs are of Kafka's kind."""
    return frozenset(f"{_AGENT}{broker}" for broker in state.kafka.brokers) if governing(state) else frozenset()


def check_governed(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Open:
    """Find what brokers show that klamm's controllers did not write. Raises OutputError."""
    found = Open([], [])
    controllers = governing(state)
    if commit is None or not controllers:
        return found
    found.findings.extend(_two_controllers(state))
    names = _Names.read(folder)
    written, sent = (_rows(folder, commit, WRITTEN.name, STATES, names, by_klamm=klamm) for klamm in (True, False))
    applied = _rows(folder, commit, APPLIED.name, STATES, names, by_klamm=False)
    claims, named = (
        _rows(folder, commit, CLAIMS.name, CLAIMS.schema, names, by_klamm=klamm) for klamm in (True, False)
    )
    always = all(controller in controllers for ids in state.kafka.ruled.values() for controller in ids)
    since = GovernedSince(always, commit.limits.clock_ms)
    for shown in (sent, applied):
        found.findings.extend(_findings(states_unlike(written, shown, since), names))
    found.findings.extend(_findings(leaders_unlike(claims, named, since), names))
    found.findings.extend(_findings(states_over_handover(written, sent, names.of_one_topic(folder)), names))
    unwritten = states_unwritten(written, sent, numpy.array(sorted(state.active), numpy.int64))
    rows = [{**row, **names.partition(row["key"])} for row in unwritten.to_pylist()]
    add_unwritten(found, rows, commit, state)
    return found


def _active(state: ClusterState, epoch: int) -> set[int]:
    """The controllers of klamm that became active in this epoch."""
    return _controllers(record.partition("/")[0] for record in state.active.get(epoch, ()))


def _controllers(nodes: Iterable[str]) -> set[int]:
    """The ids of the controllers among these nodes; a line that was changed may name any node."""
    ids = (node.removeprefix(_CONTROLLER) for node in nodes if node.startswith(_CONTROLLER))
    return {int(text) for text in ids if text.isascii() and text.isdigit()}


def _two_controllers(state: ClusterState) -> Iterator[AuditFinding]:
    for epoch, ids in sorted(state.kafka.ruled.items()):
        own = _active(state, epoch)
        others = sorted(set(ids) - own)
        if own and others:
            message = (
                f"{_CONTROLLER}{min(own)} became active in controller epoch {epoch}, in which Kafka's brokers name "
                f"controller {' and '.join(map(str, others))}"
            )
            records = (*state.active[epoch], *(ids[controller] for controller in others))
            yield AuditFinding(ONE_CONTROLLER_PER_EPOCH, f"controller-epoch {epoch} of brokers", message, records)


class _Names(NamedTuple):
    """The partitions of topics whose size klamm's logs state.

    `klamm`: their keys in klamm's logs, sorted; `kafka`: the keys that partitions of these names have in Kafka's logs,
    aligned with `klamm`. `places`: the topic and the number of the partition, by the latter keys.
    """

    klamm: Keys
    kafka: Keys
    places: dict[int, tuple[str, int]]

    @classmethod
    def read(cls, folder: OutputFolder) -> "_Names":
        rows = folder.current_rows(TOPICS_TABLE)
        counts = [row["partitions"] or 0 for row in rows]
        topic, topic_id = (_repeated([row[name] for row in rows], counts) for name in ("topic", "topic_id"))
        number = pyarrow.array([n for count in counts for n in range(count)], pyarrow.int32())
        klamm = partition_keys(topic, topic_id, number)
        kafka = kafka_keys(partition_keys(topic, pyarrow.nulls(len(topic), _TEXT), number))
        places = dict(zip(kafka.tolist(), zip(topic.to_pylist(), number.to_pylist(), strict=True), strict=True))
        order = numpy.argsort(klamm, kind="stable")
        return cls(klamm[order], kafka[order], places)

    def of_one_topic(self, folder: OutputFolder) -> Keys:
        """The keys, in Kafka's logs, of partitions that had one topic in the logs of both kinds, sorted."""
        key, count = numpy.unique(self.kafka, return_counts=True)
        rows = folder.current_rows(FINDINGS_TABLE)
        uncompared = {(row["topic"], row["partition"]) for row in rows if row["status"] == NOT_COMPARED}
        kept = [place not in uncompared for place in map(self.places.__getitem__, key.tolist())]
        return numpy.asarray(key[(count == 1) & numpy.array(kept, bool)], numpy.uint64)

    def partition(self, key: int) -> dict[str, str | int | None]:
        topic, number = self.places[key]
        return {"topic": topic, "topic_id": None, "partition": number}


def _repeated(texts: Sequence[str | None], counts: Sequence[int]) -> pyarrow.DictionaryArray:
    places = pyarrow.array(numpy.repeat(numpy.arange(len(texts)), counts), pyarrow.int64())
    return pyarrow.array(texts, pyarrow.string()).take(places).dictionary_encode()


def _rows(
    folder: OutputFolder, commit: Commit, name: str, schema: pyarrow.Schema, names: _Names, *, by_klamm: bool
) -> pyarrow.Table:
    """The rows that the runs of this name have of the partitions, with the keys of Kafka's logs; in no order."""
    of = names.klamm if by_klamm else numpy.unique(names.kafka)
    to = names.kafka if by_klamm else of
    found = []
    for bucket in commit.partitions.values():
        for run in folder.table_runs(bucket, name).every():
            place = numpy.minimum(numpy.searchsorted(of, run.key), max(len(of) - 1, 0))
            chosen = of[place] == run.key if len(of) else numpy.zeros(len(run.key), bool)
            rows = run.rows.select(schema.names).filter(pyarrow.array(chosen))
            found.append(rows.set_column(0, schema.field("key"), pyarrow.array(to[place[chosen]], pyarrow.uint64())))
    return joined(found, schema.empty_table())


def _findings(disagreements: Iterator[Disagreement], names: _Names) -> Iterator[AuditFinding]:
    for found in disagreements:
        topic, number = names.places[found.key]
        subject = f"{topic}-{number} {found.subject} of brokers"
        yield AuditFinding(
            found.rule, subject, found.message, found.records, topic=topic, partition=number, at_ms=found.at_ms
        )
