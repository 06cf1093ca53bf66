"""The messages of Kafka's state.change.logger, of the versions 2.4 to 3.9 in ZooKeeper mode.

Sources: kafka.controller.{PartitionStateMachine, ReplicaStateMachine, ControllerChannelManager, KafkaController},
kafka.server.{ReplicaManager, MetadataCache, ZkMetadataCache}, kafka.cluster.Partition.
"""

import re
from collections.abc import Callable
from typing import Final

from state_log.kafka.message_fields import (
    LEADER_AND_ISR,
    UPDATE_METADATA,
    Match,
    Said,
    UnclearMessageError,
    all_cached,
    all_sent,
    assigned,
    cached,
    elected,
    isr_shrunk,
    leaders_and_isrs_sent,
    received,
    replica_changed,
    role,
    sent,
    stop_received,
    stop_sent,
    uncached,
)

_NUMBER, _BROKERS = r"-?\d{1,10}", r"[\d, ]*"
_OFFSET, _STATE_NAME = r"\d{1,19}", r"\w{1,40}"
_VALUES: Final = {
    "topic": r"[a-zA-Z0-9._-]{1,249}",
    "isr": _BROKERS,
    "members": r"[^=]*|BrokerState.*?",
    "replicas": _BROKERS,
    "brokers": _BROKERS,
    "before": _STATE_NAME,
    "after": _STATE_NAME,
    "delete": "true|false",
    "high_watermark": _OFFSET,
    "log_end_offset": _OFFSET,
    "role": "Leader|Follower",
}
"""What stands for a name in angle brackets; a number for others."""
_PARTITION: Final = "<topic>-<partition>"
_PARTITION_EPOCH: Final = "(?:zkVersion|partitionEpoch)=<partition_epoch>"
_EPOCHS: Final = rf"leader=<leader>, leaderEpoch=<leader_epoch>, isr=\[<isr>\], {_PARTITION_EPOCH}"
_REST: Final = rf"controllerEpoch=<writer_epoch>, {_EPOCHS}, replicas=\[<replicas>\][^)]*\)"
_STATE: Final = rf"\w+\((?:topicName='[^']*', )?(?:partitionIndex=\d+, )?{_REST}"
_NAMED_STATE: Final = rf"\w+\((?:topicName='<topic>', )?(?:partitionIndex=<partition>, )?{_REST}"
_LEADERSHIP: Final = (
    r"\(Leader:<leader>,ISR:<isr>(?:,LeaderRecoveryState:\w+)?,LeaderEpoch:<leader_epoch>"
    r"(?:,ZkVersion:<partition_epoch>)?,ControllerEpoch:<writer_epoch>\)"
)
_SENDER: Final = "controller <controller> epoch <controller_epoch>"
_BY_UPDATE: Final = f"in response to UpdateMetadata request sent by {_SENDER} with correlation id <id>"
_STOPPED: Final = r"StopReplica request StopReplicaPartitionState\(.*?deletePartition=<delete>\)"
_FORMS: Final[tuple[tuple[str, Callable[[Match], Said]], ...]] = (
    (
        rf"Changed partition {_PARTITION} from <before> to <after> with state LeaderAndIsr\(leader=<leader>, "
        rf"leaderEpoch=<leader_epoch>, isr(?:WithBrokerEpoch)?=\w+\(<members>\), (?:leaderRecoveryState=\w+, )?"
        rf"{_PARTITION_EPOCH}\)",
        elected,
    ),
    (
        f"Changed partition {_PARTITION} state from <before> to <after>(?: with assigned replicas <replicas>)?",
        assigned,
    ),
    (f"Changed state of replica <broker> for partition {_PARTITION} from <before> to <after>", replica_changed),
    (
        f"Partition {_PARTITION} state changed to {_LEADERSHIP} after removing replica <broker> from the ISR as part "
        "of transition to OfflineReplica",
        isr_shrunk,
    ),
    (
        rf"Sending become-\w+ LeaderAndIsr request {_STATE} to broker <brokers> for partition {_PARTITION}",
        sent(LEADER_AND_ISR, detail_of=LEADER_AND_ISR),
    ),
    (
        rf"Sending UpdateMetadata request {_STATE} to brokers \w+\(<brokers>\) for partition {_PARTITION}",
        sent(UPDATE_METADATA),
    ),
    (r"Sending UpdateMetadata request to brokers \w+\(<brokers>\) for \d+ partitions", all_sent),
    (
        "Sending LeaderAndIsr request to broker <brokers> with <leaders> become-leader and <followers> become-follower "
        "partitions",
        leaders_and_isrs_sent,
    ),
    (f"Sending {_STOPPED} to broker <broker> for partition {_PARTITION}", stop_sent),
    (r"Sending StopReplica request (?:\(delete = \w+\) )?for \d+ replicas to broker <brokers>", all_sent),
    (
        rf"Sent LeaderAndIsr request {_LEADERSHIP} with new replica assignment ReplicaAssignment\(replicas="
        rf"<replicas>,.*\) to leader <receiver> for partition being reassigned {_PARTITION}",
        sent(LEADER_AND_ISR),
    ),
    (f"Received LeaderAndIsr request {_NAMED_STATE} correlation id <id> from {_SENDER}", received),
    (f"Cached leader info {_STATE} for partition {_PARTITION} {_BY_UPDATE}", cached),
    (f"Deleted partition {_PARTITION} from metadata cache {_BY_UPDATE}", uncached),
    (f"Add <added> partitions and deleted <deleted> partitions from metadata cache {_BY_UPDATE}", all_cached),
    (f"Received {_STOPPED} .* for partition {_PARTITION}", stop_received),
    (rf"Handling stop replica \(delete=<delete>\) for partition {_PARTITION}", stop_received),
    (
        rf"<role> {_PARTITION}(?: with topic id \S+)? starts at leader epoch <leader_epoch> from offset "
        r"<log_end_offset>(?: with partition epoch <partition_epoch>,| with) high watermark "
        r"<high_watermark>,? ISR \[<isr>\].*",
        role,
    ),
    (
        rf"<role> {_PARTITION} starts at leader epoch <leader_epoch> from offset <log_end_offset>"
        r"(?: with partition epoch <partition_epoch> and| with) high watermark <high_watermark>\."
        r"(?: Current leader is <leader>\.)?.*",
        role,
    ),
)
WITHOUT_FACTS: Final = (
    *(
        "A ZooKeeper client exception ",
        "A topic with the same name ",
        "Applied ",
        "Applying ",
        "Completed ",
        "Controller ",
    ),
    *("Creating new partition ", "Deferring ", "Deleting ", "Error while ", "Expected partition ", "Failed to send "),
    *(
        "Finished ",
        "Found ",
        "Handling LeaderAndIsr request ",
        "Handling StopReplica request ",
        "Ignoring ",
        "Mark replicas ",
    ),
    *("Metadata batch ", "Metadata changes ", "Received LeaderAndIsrRequest ", "Received UpdateMetadataRequest "),
    *(
        "Received error ",
        "Received response ",
        "Received stop replica ",
        # Of an earlier controller, which is refused.
        "Received update metadata request ",
        "Skipped ",
        "Started fetcher",
        "Stopped fetchers ",
    ),
    *(
        "The topic partition ",
        "Topic ID in memory",
        "Topic Id in memory",
        "Transitioning ",
        "Truncated logs ",
        "Unable to ",
    ),
    *("Updating PartitionFetchState ", "Updating log for ", "While handling full LeaderAndIsr "),
)
"""How messages begin that are Kafka's, and state nothing that a rule needs."""


def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<(\w+)>", lambda name: f"(?P<{name[1]}>{_VALUES.get(name[1], _NUMBER)})", form))


def _beginnings() -> dict[str, list[tuple[re.Pattern[str], Callable[[Match], Said]]]]:
    found: dict[str, list[tuple[re.Pattern[str], Callable[[Match], Said]]]] = {}
    for form, make in _FORMS:
        word = form.partition(" ")[0]
        for beginning in ("Leader", "Follower") if word == "<role>" else (word,):
            found.setdefault(beginning, []).append((_compiled(form), make))
    return found


_BY_WORD: Final = _beginnings()


def read_message(message: str) -> Said:
    """Read what a message states. Raises UnclearMessageError if it is none of Kafka's."""
    for form, make in _BY_WORD.get(message.partition(" ")[0], ()):
        found = form.fullmatch(message)
        if found is not None:
            return make(found)
    if message.startswith(WITHOUT_FACTS):
        return Said()
    raise UnclearMessageError("no message of Kafka's state.change.logger begins or continues like that")
