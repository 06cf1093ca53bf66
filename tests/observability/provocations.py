"""For each alert, what makes it fire on a live cluster, and what ends it."""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from admin.connecting.client import AdminClient
from cluster.model.broker import BrokerEpoch, ControllerEpoch, ControllerId
from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.process.local_cluster import BROKER, CONTROLLER
from cluster.requests.control import StopReplicaRequest
from deploy.local.cluster_folder import TARGETS_FILE
from state_log.writer import STATE_CHANGE_FOLDER
from tests.observability.stage import CONNECTIONS_MAX, Stage, end, log_without_a_line, start_audit
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually, partitions

Provocation = Callable[[Stage], None]
PROVOCATIONS: Final[dict[str, tuple[tuple[str, ...], Provocation]]] = {}
"""By name: the alerts that must fire, in the order of this file, and what makes them fire."""
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_FIRST_SEGMENT: Final = f"{0:020d}.log"


def provokes(*alerts: str) -> Callable[[Provocation], Provocation]:
    def register(provocation: Provocation) -> Provocation:
        PROVOCATIONS[provocation.__name__] = (alerts, provocation)
        return provocation

    return register


def create(stage: Stage, topic: str, *replicas: str, **configs: object) -> None:
    """A topic with one partition for each list of brokers, such as `1:2`."""
    settings = [
        argument for key, value in configs.items() for argument in ("--config", f"{key.replace('_', '.')}={value}")
    ]
    stage.klamm("topics", "create", topic, "--replica-assignment", ",".join(replicas), *settings)


def produce(stage: Stage, topic: str, count: int = 300) -> None:
    stage.klamm("produce", topic, stdin="".join(f"k{n}\t{n}\n" for n in range(count)))


def registered_brokers(stage: Stage) -> set[int]:
    described = json.loads(stage.klamm("cluster", "describe", "-o", "json"))
    return {broker["id"] for broker in described["brokers"]}


def active_controller(stage: Stage) -> int:
    return int(json.loads(stage.klamm("cluster", "describe", "-o", "json"))["controller"]["id"])


@contextmanager
def paused(stage: Stage, *names: str) -> Iterator[None]:
    for name in names:
        stage.cluster.pause(name)
    try:
        yield
    finally:
        for name in names:
            stage.cluster.resume(name)


@contextmanager
def killed(stage: Stage, *names: str) -> Iterator[None]:
    for name in names:
        stage.cluster.kill(name)
    try:
        yield
    finally:
        for name in names:
            stage.cluster.start(name)


async def send_refused_requests(address: str, count: int = 1) -> None:
    """Control requests at a broker's listener for clients."""
    async with AdminClient([address]) as client:
        for _ in range(count):
            with contextlib.suppress(ApiError, PeerUnreachableError):
                request = StopReplicaRequest(ControllerId(1), ControllerEpoch(1), BrokerEpoch(1), ())
                await client.rpc.call(address, request, 5_000)


@provokes("DiskNearlyFull", "ZooKeeperSlow")
def only_the_lower_thresholds(stage: Stage) -> None:
    """The disk of any machine is used a little, and ZooKeeper takes some time."""
    stage.until_firing("DiskNearlyFull", "ZooKeeperSlow")


@provokes("ActiveControllerCount", "TargetDown")
def all_controllers_are_killed(stage: Stage) -> None:
    names = [member.name for member in stage.cluster.members(CONTROLLER)]
    with killed(stage, *names):
        stage.until_firing("ActiveControllerCount", "TargetDown")


@provokes("RepeatedControllerElections")
def the_active_controller_is_killed_again_and_again(stage: Stage) -> None:
    active = 'kafka_controller_kafkacontroller_activecontrollercount{job="klamm-controller"} == 1'
    for _ in range(2):
        stage.until_healthy()
        [killed_one] = [series["metric"]["node"] for series in stage.server.query(active)]

        def is_another_active(node: str = killed_one) -> bool:
            return [series["metric"]["node"] for series in stage.server.query(active)] not in ([], [node])

        with killed(stage, killed_one):
            eventually(is_another_active, "another one is active")
    stage.until_firing("RepeatedControllerElections")


@provokes("TargetVanished")
def a_broker_is_taken_out_of_the_file_of_targets(stage: Stage) -> None:
    file = stage.cluster.folder / TARGETS_FILE
    targets = file.read_bytes()
    file.write_text(json.dumps([t for t in json.loads(targets) if t["labels"]["node"] != "broker-3"]))
    try:
        stage.until_firing("TargetVanished")
    finally:
        file.write_bytes(targets)


@provokes("RulesFailing")
def a_rule_selects_two_series_that_are_one_without_their_names(stage: Stage) -> None:
    rule = {"record": "failing", "expr": '{__name__=~"up|scrape_duration_seconds"}'}
    with stage.server.more_rules({"groups": [{"name": "failing", "rules": [rule]}]}):
        stage.until_firing("RulesFailing")


@provokes("RequestErrors")
def control_requests_are_sent_to_the_listener_of_clients(stage: Stage) -> None:
    broker = stage.cluster.members(BROKER)[0]

    def fires() -> bool:
        asyncio.run(send_refused_requests(broker.address, 50))
        return "RequestErrors" in stage.server.firing()

    eventually(fires, "RequestErrors fires")


@provokes("RequestsSlow")
def producers_wait_for_a_follower_that_hangs(stage: Stage) -> None:
    """Before requests that are refused at once: the average is of all."""
    create(stage, "waiting", "2:3")
    produce(stage, "waiting")
    with paused(stage, "broker-3"):
        produce(stage, "waiting")
    stage.until_firing("RequestsSlow")


@provokes("ProduceOrFetchFailing")
def a_topic_wants_more_in_sync_replicas_than_it_has(stage: Stage) -> None:
    create(stage, "refused", "1:2", min_insync_replicas=2)

    def fires() -> bool:
        run_klamm("produce", "refused", "--timeout", "2", "--data", str(stage.cluster.folder), stdin="1\n")
        return "ProduceOrFetchFailing" in stage.server.firing()

    with killed(stage, "broker-2"):
        eventually(lambda: partitions(stage.cluster, "refused")[0]["isr"] == [1], "2 left the ISR")
        eventually(fires, "ProduceOrFetchFailing fires")


@provokes("OfflinePartitions", "UnderReplicatedPartitions", "UnderMinIsrPartitions")
def a_broker_is_killed(stage: Stage) -> None:
    create(stage, "alone", "1")
    create(stage, "strict", "2:1", min_insync_replicas=2)
    with killed(stage, "broker-1"):
        stage.until_firing("OfflinePartitions", "UnderReplicatedPartitions", "UnderMinIsrPartitions")


@provokes("UncleanLeaderElection")
def a_replica_outside_the_isr_is_elected(stage: Stage) -> None:
    create(stage, "unclean", "1:2")
    stage.cluster.kill("broker-2")
    try:
        eventually(lambda: partitions(stage.cluster, "unclean")[0]["isr"] == [1], "2 left the ISR")
        with killed(stage, "broker-1"):
            stage.cluster.start("broker-2")
            election = ("elect", "unclean", "--topic", "unclean", "--partition", "0", "--yes")

            def is_elected() -> bool:
                stage.restart_exited()
                run_klamm(*election, "--data", str(stage.cluster.folder))
                return bool(partitions(stage.cluster, "unclean")[0]["leader"] == 2)

            eventually(is_elected, "2 is elected")
            stage.until_firing("UncleanLeaderElection")
    finally:
        stage.cluster.start("broker-2")


@provokes("TopicDeletionStuck")
def a_topic_is_deleted_while_a_replica_is_down(stage: Stage) -> None:
    create(stage, "deleted", "2:3")
    with killed(stage, "broker-3"):
        run_klamm("topics", "delete", "deleted", "--yes", "--timeout", "1", "--data", str(stage.cluster.folder))
        stage.until_firing("TopicDeletionStuck")


@provokes("ReassignmentStuck")
def a_partition_is_moved_to_a_broker_that_hangs(stage: Stage) -> None:
    create(stage, "moved", "1")
    produce(stage, "moved")
    plan = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3]}]}
    with paused(stage, "broker-3"):
        stage.klamm("reassign", "execute", "-", stdin=json.dumps(plan))
        stage.until_firing("ReassignmentStuck")


@provokes("IsrFlapping")
def a_follower_hangs_again_and_again(stage: Stage) -> None:
    create(stage, "flapping", *["1:3"] * 4)
    for _ in range(2):
        produce(stage, "flapping")
        with paused(stage, "broker-3"):
            produce_without_waiting(stage, "flapping")
            eventually(lambda: all(p["isr"] == [1] for p in partitions(stage.cluster, "flapping")), "3 left the ISRs")
        eventually(lambda: all(len(p["isr"]) == 2 for p in partitions(stage.cluster, "flapping")), "3 is in the ISRs")
    stage.until_firing("IsrFlapping")


def produce_without_waiting(stage: Stage, topic: str) -> None:
    """With acks=1: a follower lags only behind records that it does not have."""
    stage.klamm("produce", topic, "--acks", "1", stdin="".join(f"k{n}\t{n}\n" for n in range(300)))


@provokes("ZooKeeperSessionExpired")
def a_broker_hangs_longer_than_its_session(stage: Stage) -> None:
    """It goes on only when ZooKeeper has ended the session; had ZooKeeper hung, the two would race."""
    with paused(stage, "broker-3"):
        eventually(lambda: 3 not in registered_brokers(stage), "the session of broker 3 has expired")
    stage.until_firing("ZooKeeperSessionExpired")


@provokes("ControllerQueueOld", "ZooKeeperDisconnected")
def zookeeper_hangs(stage: Stage) -> None:
    stage.zookeeper.send_signal(signal.SIGSTOP)
    creation = threading.Thread(
        target=run_klamm,
        args=("topics", "create", "late", "--partitions", "1", "--timeout", "60", "--data", str(stage.cluster.folder)),
    )
    try:
        creation.start()
        stage.until_firing("ControllerQueueOld", "ZooKeeperDisconnected")
    finally:
        stage.zookeeper.send_signal(signal.SIGCONT)
    creation.join()


@provokes("EventLoopBlocked")
def the_main_thread_of_a_standby_is_stopped(stage: Stage) -> None:
    """As by a debugger; its other threads run, also the one that serves the metrics."""
    active = active_controller(stage)
    standby = next(member for member in stage.cluster.members(CONTROLLER) if member.id != active)
    assert standby.process is not None
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    pid = standby.process.pid
    assert trace(_PTRACE_ATTACH, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        stage.until_firing("EventLoopBlocked")
    finally:
        assert trace(_PTRACE_DETACH, pid, None, None) == 0, os.strerror(ctypes.get_errno())


@provokes("DamagedReplica")
def a_byte_of_a_follower_changes_on_disk(stage: Stage) -> None:
    create(stage, "damaged", "1:2")
    produce(stage, "damaged", 3000)
    segment = stage.log_directory(2) / "damaged-0" / _FIRST_SEGMENT
    eventually(lambda: segment.exists() and segment.stat().st_size > 3000, "the follower has the records")
    with segment.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 0xFF]))
    stage.until_firing("DamagedReplica")


@provokes("FetcherFailed")
def a_batch_of_a_leader_gets_another_offset_on_disk(stage: Stage) -> None:
    """The base offset is not covered by the checksum. The batch is one that the follower does not have."""
    create(stage, "misplaced", "1:2")
    produce(stage, "misplaced")
    with killed(stage, "broker-2"):
        eventually(lambda: partitions(stage.cluster, "misplaced")[0]["isr"] == [1], "2 left the ISR")
        produce_without_waiting(stage, "misplaced")
        segment = stage.log_directory(1) / "misplaced-0" / _FIRST_SEGMENT
        content = segment.read_bytes()
        position = last = 0
        while position < len(content):
            last, position = position, position + 12 + int.from_bytes(content[position + 8 : position + 12])
        with segment.open("r+b") as file:
            file.seek(last)
            file.write((int.from_bytes(content[last : last + 8]) - 1).to_bytes(8))
    try:
        stage.until_firing("FetcherFailed")
    finally:
        stage.klamm("topics", "delete", "misplaced", "--yes")


@provokes("StateChangeLogFailing")
def a_state_change_log_cannot_be_written(stage: Stage) -> None:
    """Its folder is a file when the broker starts, and gets a partition."""
    folder = stage.fourth.directories[0] / STATE_CHANGE_FOLDER
    aside = folder.with_name("aside")
    stage.fourth.stop()
    folder.rename(aside)
    folder.write_text("not a folder\n")
    stage.fourth.start()
    try:
        stage.until_healthy()
        create(stage, "unrecorded", "4")
        stage.until_firing("StateChangeLogFailing")
    finally:
        stage.fourth.stop()
        folder.unlink()
        aside.rename(folder)
        stage.fourth.start()


@provokes("OfflineLogDirectory")
def a_log_directory_vanishes(stage: Stage) -> None:
    create(stage, "on-four", "4", "4", "4")
    produce(stage, "on-four")
    directory = stage.fourth.directories[0]
    aside = directory.with_name("aside")
    directory.rename(aside)
    directory.write_text("not a folder\n")
    try:
        stage.until_firing("OfflineLogDirectory")
    finally:
        stage.fourth.stop()
        directory.unlink()
        aside.rename(directory)
        stage.fourth.start()


@provokes("LogDirectoryFull")
def a_log_directory_has_no_room(stage: Stage) -> None:
    """Nothing here may fill a disk: the threshold is what it has not."""
    stage.fourth.stop()
    stage.fourth.configure({"klamm.log.dir.min.free.bytes": 1 << 60})
    stage.fourth.start()
    try:
        stage.until_firing("LogDirectoryFull")
    finally:
        stage.fourth.stop()
        stage.fourth.configure({})
        stage.fourth.start()


@provokes("RequestsRefused")
def more_connections_than_allowed(stage: Stage) -> None:
    """Calls that begin, and send no request."""
    held = threading.Event()

    def nothing() -> Iterator[bytes]:
        held.wait()
        yield from ()

    channels = [
        grpc.insecure_channel(f"127.0.0.1:{stage.fourth.port}", options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(2 * CONNECTIONS_MAX)
    ]
    calls = [
        channel.stream_unary("/klamm.v1.BrokerAgentService/Metadata").future(nothing(), timeout=60)
        for channel in channels
    ]
    try:
        stage.until_firing("RequestsRefused")
    finally:
        held.set()
        for call in calls:
            call.cancel()
        for channel in channels:
            channel.close()


@provokes("AuditFindings", "AuditIncomplete", "AuditBehind")
def an_audit_reads_a_log_without_a_line(stage: Stage) -> None:
    """It expects a node that has no log, and the cluster writes faster than it reads."""
    folder = stage.cluster.folder.parent / "audit"
    folder.mkdir(exist_ok=True)
    start_audit(stage, folder, "--log-dir", str(log_without_a_line(folder)), "--expect", "broker-99")
    # Each waits for itself: Spark may take minutes to start on a busy machine.
    eventually(lambda: stage.server.query('up{job="klamm-audit"} == 1'), "the audit has started")
    eventually(lambda: stage.server.query("klamm_audit_job_records_total > 0"), "the audit has read something")
    stage.until_firing("AuditFindings", "AuditIncomplete")
    written = iter(range(10_000))

    def is_behind() -> bool:
        """What is written during a batch is behind when it ends."""
        stage.klamm("topics", "create", f"many-{next(written)}", "--partitions", "30", "--replication-factor", "3")
        assert stage.audit is not None
        assert stage.audit.poll() is None, (folder / "audit.log").read_text()[-2000:]
        return "AuditBehind" in stage.server.fired()

    eventually(is_behind, "the audit is behind")


@provokes("AuditDown")
def the_audit_is_killed(stage: Stage) -> None:
    end(stage.audit)
    stage.until_firing("AuditDown")
