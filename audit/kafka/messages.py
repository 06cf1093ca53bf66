"""What the messages of Kafka's state.change.logger say, of the versions 2.4 to 3.9 in ZooKeeper mode.

Sources: kafka.controller.{PartitionStateMachine, ReplicaStateMachine, ControllerChannelManager, KafkaController},
kafka.server.{ReplicaManager, MetadataCache, ZkMetadataCache}, kafka.cluster.Partition.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from state_log.record import Cause, Kind

LEADER_AND_ISR: Final = "LeaderAndIsr"
UPDATE_METADATA: Final = "UpdateMetadata"
CACHED: Final = "cached"
"""`to_state` of a role: the broker knows so much of the partition, whether it hosts it or not."""
_INT32_MAX: Final = (1 << 31) - 1
_BROKERS_MAX: Final = 10_000
LEADER_DURING_DELETE: Final = -2
"""The leader in the requests about a partition whose topic is being deleted; epochs and ISR say nothing then."""


class UnclearMessageError(Exception):
    """A message that has another form than Kafka's, and why."""


class Said(Struct, frozen=True):
    """The fields of a record (`state_log.record.StateChange`) that a message states; empty: it states none.

    `sent_to`: brokers that the controller sends something to. `by`: the controller whose request a broker handles, and
    its epoch. `detail_of`: the request about which this is one of the messages that only TRACE has; `sum_of`: the
    request about which this INFO message sums up so many of them.
    """

    fields: Mapping[str, Any] = {}
    sent_to: tuple[int, ...] = ()
    by: tuple[int, int] | None = None
    detail_of: str = ""
    sum_of: tuple[str, int] | None = None


Match = re.Match[str]
_NOTHING: Final = Said()
_TOPIC, _NUMBER = r"[a-zA-Z0-9._-]{1,249}", r"\d{1,10}"


def _state_form(topic: str, partition: str) -> str:
    return (
        rf"\w+\((?:topicName='{topic}', )?(?:partitionIndex={partition}, )?controllerEpoch=-?\d{{1,10}}, "
        r"leader=(?P<leader>-?\d{1,10}), leaderEpoch=(?P<leader_epoch>-?\d{1,10}), isr=\[(?P<isr>[\d, ]*)\], "
        r"(?:zkVersion|partitionEpoch)=(?P<partition_epoch>-?\d{1,10}), replicas=\[(?P<replicas>[\d, ]*)\][^)]*\)"
    )


_PARTITION: Final = rf"(?P<topic>{_TOPIC})-(?P<partition>{_NUMBER})"
_STATE: Final = _state_form(_TOPIC, _NUMBER)
_NAMED_STATE: Final = _state_form(f"(?P<topic>{_TOPIC})", f"(?P<partition>{_NUMBER})")
_LEADERSHIP = (
    r"\(Leader:(?P<leader>-?\d{1,10}),ISR:(?P<isr>[\d,]*)(?:,LeaderRecoveryState:\w+)?,"
    r"LeaderEpoch:(?P<leader_epoch>-?\d{1,10})(?:,ZkVersion:(?P<partition_epoch>-?\d{1,10}))?,ControllerEpoch:-?\d{1,10}\)"
)
_SENDER = r"controller (?P<controller>-?\d{1,10}) epoch (?P<controller_epoch>-?\d{1,10})"
_CORRELATION = r"correlation id (?P<id>-?\d{1,10})"


def _int32(text: str) -> int:
    number = int(text)
    if not -1 - _INT32_MAX <= number <= _INT32_MAX:
        raise UnclearMessageError(f"{text} is no 32-bit number")
    return number


def _brokers(text: str) -> tuple[int, ...]:
    numbers = tuple(_int32(part) for part in re.findall(r"\d+", text))
    if len(numbers) > _BROKERS_MAX:
        raise UnclearMessageError(f"{len(numbers)} brokers are more than {_BROKERS_MAX}")
    return numbers


def _of_partition(found: Match) -> dict[str, Any]:
    return {"topic": found["topic"], "partition": _int32(found["partition"])}


def _state(found: Match) -> dict[str, Any]:
    """Leader, epochs and ISR; nothing of a partition that is being deleted."""
    named = found.groupdict()
    leader = _int32(found["leader"])
    if leader == LEADER_DURING_DELETE:
        return {}
    fields: dict[str, Any] = {
        "leader": leader,
        "leader_epoch": _int32(found["leader_epoch"]),
        "isr": _brokers(found["isr"]),
    }
    if named.get("partition_epoch") is not None:
        fields["partition_epoch"] = _int32(found["partition_epoch"])
    if named.get("replicas") is not None:
        fields["replicas"] = _brokers(found["replicas"])
    return fields


def _sender(found: Match, event: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """Fields of what a broker does by a controller's request, and that controller with its epoch."""
    controller, epoch = _int32(found["controller"]), _int32(found["controller_epoch"])
    return {"cause": Cause(event, int(found["id"]), controller_epoch=epoch)}, (controller, epoch)  # type: ignore[arg-type]


def _assigned(found: Match) -> Said:
    states = {"from_state": found["before"], "to_state": found["after"]}
    replicas = {"replicas": _brokers(found["replicas"])} if found["replicas"] is not None else {}
    return Said({"kind": Kind.PARTITION, **_of_partition(found), **states, **replicas})


def _elected(found: Match) -> Said:
    """ISRs of Kafka 3.4 and later name the epochs of their brokers."""
    isr = found["isr"]
    members = ",".join(re.findall(r"brokerId=(\d+)", isr)) if "brokerId" in isr else isr
    fields = {
        "leader": _int32(found["leader"]),
        "leader_epoch": _int32(found["leader_epoch"]),
        "isr": _brokers(members),
        "partition_epoch": _int32(found["partition_epoch"]),
    }
    states = {"from_state": found["before"], "to_state": found["after"]}
    return Said({"kind": Kind.PARTITION, **_of_partition(found), **states, **fields})


def _replica(found: Match) -> Said:
    states = {"broker": _int32(found["broker"]), "from_state": found["before"], "to_state": found["after"]}
    return Said({"kind": Kind.REPLICA, **_of_partition(found), **states})


def _isr(found: Match) -> Said:
    reason = f"replica {_int32(found['broker'])} leaves the ISR"
    return Said({"kind": Kind.ISR, **_of_partition(found), **_state(found), "reason": reason})


def _sent(event: str, detail_of: str = "") -> Callable[[Match], Said]:
    """What a controller sends it knows to be so: a state that stands, as at a start."""

    def said(found: Match) -> Said:
        brokers = _brokers(found["brokers"])
        reason = f"{event} to {', '.join(map(str, brokers))}"
        fields = {"kind": Kind.LOADED, **_of_partition(found), **_state(found), "cause": Cause(event), "reason": reason}
        if len(brokers) == 1:
            fields["broker"] = brokers[0]
        return Said(fields, brokers, detail_of=detail_of)

    return said


def _all_sent(found: Match) -> Said:
    return Said(sent_to=_brokers(found["brokers"]))


def _leaders_and_isrs_sent(found: Match) -> Said:
    count = int(found["leaders"]) + int(found["followers"])
    return Said(sent_to=_brokers(found["brokers"]), sum_of=(LEADER_AND_ISR, count))


def _stop_sent(found: Match) -> Said:
    state = "deleted" if found["delete"] == "true" else "stopped"
    fields = {"kind": Kind.LOADED, **_of_partition(found), "cause": Cause("StopReplica"), "to_state": state}
    broker = _int32(found["broker"])
    return Said({**fields, "broker": broker, "reason": f"StopReplica to {broker}"}, (broker,))


def _received(found: Match) -> Said:
    if found["topic"] is None or found["partition"] is None:
        raise UnclearMessageError("the request names no partition")
    cause, by = _sender(found, LEADER_AND_ISR)
    fields = {"kind": Kind.LOADED, **_of_partition(found), **_state(found), **cause, "controller_epoch": by[1]}
    return Said({**fields, "reason": "LeaderAndIsr received"}, by=by)


def _cached(found: Match) -> Said:
    cause, by = _sender(found, UPDATE_METADATA)
    fields = {"kind": Kind.ROLE, **_of_partition(found), **_state(found), **cause, "to_state": CACHED}
    return Said(fields, by=by, detail_of=UPDATE_METADATA)


def _uncached(found: Match) -> Said:
    cause, by = _sender(found, UPDATE_METADATA)
    fields = {"kind": Kind.ROLE, **_of_partition(found), **cause, "to_state": "deleted"}
    return Said(fields, by=by, detail_of=UPDATE_METADATA)


def _cached_all(found: Match) -> Said:
    by = (_int32(found["controller"]), _int32(found["controller_epoch"]))
    return Said(by=by, sum_of=(UPDATE_METADATA, int(found["added"]) + int(found["deleted"])))


def _stop_received(found: Match) -> Said:
    state = "deleted" if found["delete"] == "true" else "stopped"
    return Said({"kind": Kind.ROLE, **_of_partition(found), "to_state": state})


def _role(found: Match) -> Said:
    """`leader` of a leader's own message is the broker that writes it."""
    named = found.groupdict()
    fields: dict[str, Any] = {"to_state": "follower" if found["role"] == "Follower" else "leader"}
    for name in ("leader", "leader_epoch", "partition_epoch"):
        if named.get(name) is not None:
            fields[name] = _int32(found[name])
    for name in ("high_watermark", "log_end_offset"):
        if named.get(name) is not None:
            fields[name] = min(int(found[name]), (1 << 63) - 1)
    if named.get("isr") is not None:
        fields["isr"] = _brokers(found["isr"])
    return Said({"kind": Kind.ROLE, **_of_partition(found), **fields})


_STATES: Final = r"(?P<before>\w{1,40}) to (?P<after>\w{1,40})"
_FORMS: Final[tuple[tuple[str, str, Callable[[Match], Said]], ...]] = (
    (
        "Changed partition ",
        rf"Changed partition {_PARTITION} from {_STATES} with state LeaderAndIsr\(leader=(?P<leader>-?\d{{1,10}}), "
        r"leaderEpoch=(?P<leader_epoch>-?\d{1,10}), isr(?:WithBrokerEpoch)?=\w+\((?P<isr>[^=]*|BrokerState.*?)\), "
        r"(?:leaderRecoveryState=\w+, )?(?:zkVersion|partitionEpoch)=(?P<partition_epoch>-?\d{1,10})\)",
        _elected,
    ),
    (
        "Changed partition ",
        rf"Changed partition {_PARTITION} state from {_STATES}(?: with assigned replicas (?P<replicas>[\d,]*))?",
        _assigned,
    ),
    (
        "Changed state of replica ",
        rf"Changed state of replica (?P<broker>\d{{1,10}}) for partition {_PARTITION} from {_STATES}",
        _replica,
    ),
    (
        "Partition ",
        rf"Partition {_PARTITION} state changed to {_LEADERSHIP} after removing replica (?P<broker>\d{{1,10}}) from the "
        r"ISR as part of transition to OfflineReplica",
        _isr,
    ),
    (
        "Sending become-",
        rf"Sending become-\w+ LeaderAndIsr request {_STATE} to broker (?P<brokers>\d{{1,10}}) for partition {_PARTITION}",
        _sent(LEADER_AND_ISR, detail_of=LEADER_AND_ISR),
    ),
    (
        "Sending UpdateMetadata request ",
        rf"Sending UpdateMetadata request {_STATE} to brokers \w+\((?P<brokers>[\d, ]*)\) for partition {_PARTITION}",
        _sent(UPDATE_METADATA),
    ),
    (
        "Sending UpdateMetadata request ",
        r"Sending UpdateMetadata request to brokers \w+\((?P<brokers>[\d, ]*)\) for \d{1,10} partitions",
        _all_sent,
    ),
    (
        "Sending LeaderAndIsr request ",
        r"Sending LeaderAndIsr request to broker (?P<brokers>\d{1,10}) with (?P<leaders>\d{1,10}) become-leader and "
        r"(?P<followers>\d{1,10}) become-follower partitions",
        _leaders_and_isrs_sent,
    ),
    (
        "Sending StopReplica request ",
        r"Sending StopReplica request StopReplicaPartitionState\(.*?deletePartition=(?P<delete>true|false)\) to broker "
        rf"(?P<broker>\d{{1,10}}) for partition {_PARTITION}",
        _stop_sent,
    ),
    (
        "Sending StopReplica request ",
        r"Sending StopReplica request (?:\(delete = \w+\) )?for \d{1,10} replicas to broker "
        r"(?P<brokers>\d{1,10})",
        _all_sent,
    ),
    (
        "Sent LeaderAndIsr request ",
        rf"Sent LeaderAndIsr request {_LEADERSHIP} with new replica assignment ReplicaAssignment\("
        r"replicas=(?P<replicas>[\d,]*),.*\) to leader (?P<brokers>-?\d{1,10}) for partition being reassigned "
        rf"{_PARTITION}",
        _sent(LEADER_AND_ISR),
    ),
    (
        "Received LeaderAndIsr request ",
        rf"Received LeaderAndIsr request {_NAMED_STATE} {_CORRELATION} from {_SENDER}",
        _received,
    ),
    (
        "Cached leader info ",
        rf"Cached leader info {_STATE} for partition {_PARTITION} in response to UpdateMetadata request sent by {_SENDER} "
        rf"with {_CORRELATION}",
        _cached,
    ),
    (
        "Deleted partition ",
        rf"Deleted partition {_PARTITION} from metadata cache in response to UpdateMetadata request sent by {_SENDER} with "
        rf"{_CORRELATION}",
        _uncached,
    ),
    (
        "Add ",
        r"Add (?P<added>\d{1,10}) partitions and deleted (?P<deleted>\d{1,10}) partitions from metadata cache in response "
        rf"to UpdateMetadata request sent by {_SENDER} with {_CORRELATION}",
        _cached_all,
    ),
    (
        "Received StopReplica request ",
        r"Received StopReplica request StopReplicaPartitionState\(.*?deletePartition=(?P<delete>true|false)\) .* for "
        rf"partition {_PARTITION}",
        _stop_received,
    ),
    (
        "Handling stop replica ",
        rf"Handling stop replica \(delete=(?P<delete>true|false)\) for partition {_PARTITION}",
        _stop_received,
    ),
    (
        "Leader ",
        rf"(?P<role>Leader) {_PARTITION}(?: with topic id \S+)? starts at leader epoch (?P<leader_epoch>-?\d{{1,10}}) from "
        r"offset (?P<log_end_offset>\d{1,19})(?: with partition epoch (?P<partition_epoch>-?\d{1,10}),| with) high watermark "
        r"(?P<high_watermark>\d{1,19}),? ISR \[(?P<isr>[\d,]*)\].*",
        _role,
    ),
    (
        "Follower ",
        rf"(?P<role>Follower) {_PARTITION} starts at leader epoch (?P<leader_epoch>-?\d{{1,10}}) from offset "
        r"(?P<log_end_offset>\d{1,19})(?: with partition epoch (?P<partition_epoch>-?\d{1,10}) and| with) high watermark "
        r"(?P<high_watermark>\d{1,19})\.(?: Current leader is (?P<leader>-?\d{1,10})\.)?.*",
        _role,
    ),
)
WITHOUT_FACTS: Final = (
    *("A ZooKeeper client exception ", "A topic with the same name ", "Applied ", "Applying ", "Completed ", "Controller "),
    *("Creating new partition ", "Deferring ", "Deleting ", "Error while ", "Expected partition ", "Failed to send "),
    *("Finished ", "Found ", "Handling LeaderAndIsr request ", "Handling StopReplica request ", "Ignoring ", "Mark replicas "),
    *("Metadata batch ", "Metadata changes ", "Received LeaderAndIsrRequest ", "Received UpdateMetadataRequest "),
    *("Received error ", "Received response ", "Received stop replica ", "Skipped ", "Started fetcher", "Stopped fetchers "),
    *("The topic partition ", "Topic ID in memory", "Topic Id in memory", "Transitioning ", "Truncated logs ", "Unable to "),
    *("Updating PartitionFetchState ", "Updating log for ", "While handling full LeaderAndIsr "),
)
"""How messages begin that are Kafka's, and state nothing that a rule needs."""
_BY_WORD: Final[dict[str, list[tuple[str, re.Pattern[str], Callable[[Match], Said]]]]] = {}
for _beginning, _form, _make in _FORMS:
    _BY_WORD.setdefault(_beginning.split(" ", 1)[0], []).append((_beginning, re.compile(_form), _make))


def read_message(message: str) -> Said:
    """What a message states. Raises UnclearMessageError if it is none of Kafka's."""
    for beginning, form, make in _BY_WORD.get(message.partition(" ")[0], ()):
        if message.startswith(beginning):
            found = form.fullmatch(message)
            if found is not None:
                return make(found)
    if message.startswith(WITHOUT_FACTS):
        return _NOTHING
    raise UnclearMessageError("no message of Kafka's state.change.logger begins or goes on like that")
