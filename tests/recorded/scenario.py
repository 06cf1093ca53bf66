"""Scenario files: what is done to a cluster, step by step, and what to wait for after each step.

A step is one value of the closed union `Step`; its JSON has the kind under `do`. Nothing in a scenario belongs to
one implementation.
"""

import pathlib
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

DATA = pathlib.Path(__file__).resolve().parent
SCENARIOS = DATA / "scenarios"
GOLDEN = DATA / "golden"

Condition = dict[str, Any]
"""One key, the kind, with what it is about: `{"leader": ["t", 0, 2]}`."""


class Waiting(Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """What every step may say: whether to wait for quiet afterwards (`quiet_s` None: the kind's own time), for
    which conditions, at most how long, and whether the picture is recorded. `expect` and `record` are for readers:
    the golden trace holds the outcome.
    """

    QUIET_S: ClassVar[float] = 3.0

    wait: bool = True
    snapshot: bool = True
    until: tuple[Condition, ...] = ()
    quiet_s: float | None = None
    max_s: float = 60.0
    record: str = ""
    expect: dict[str, Any] = {}

    @property
    def quiet_seconds(self) -> float:
        return self.QUIET_S if self.quiet_s is None else self.quiet_s

    @property
    def implied(self) -> tuple[Condition, ...]:
        """The condition that goes without saying for this kind of step."""
        return ()


class StartBrokers(Waiting, frozen=True, kw_only=True, tag="start_brokers"):
    QUIET_S: ClassVar[float] = 1.0
    brokers: tuple[int, ...]
    racks: dict[int, str] = {}

    @property
    def implied(self) -> tuple[Condition, ...]:
        return tuple({"broker_up": b} for b in self.brokers)


class Kill(Waiting, frozen=True, kw_only=True, tag="kill"):
    broker: int

    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"broker_down": self.broker},)


class Stop(Waiting, frozen=True, kw_only=True, tag="stop"):
    """Controlled shutdown."""

    broker: int

    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"broker_down": self.broker},)


class Start(Waiting, frozen=True, kw_only=True, tag="start"):
    """`wipe`: on an empty data directory."""

    broker: int
    wipe: bool = False

    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"broker_up": self.broker},)


class Pause(Waiting, frozen=True, kw_only=True, tag="pause"):
    broker: int


class Resume(Waiting, frozen=True, kw_only=True, tag="resume"):
    broker: int


class KillController(Waiting, frozen=True, kw_only=True, tag="kill_controller"):
    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"controller": "changed"},)


class RestartController(Waiting, frozen=True, kw_only=True, tag="restart_controller"):
    QUIET_S: ClassVar[float] = 1.5

    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"controller": "present"},)


class PauseController(Waiting, frozen=True, kw_only=True, tag="pause_controller"):
    """`expire`: /controller is deleted too, and the step lasts until the session of the hanging one is gone."""

    expire: bool = False


class ResumeController(Waiting, frozen=True, kw_only=True, tag="resume_controller"):
    pass


class DeleteControllerZnode(Waiting, frozen=True, kw_only=True, tag="delete_controller_znode"):
    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"controller": "changed"},)


class CreateTopic(Waiting, frozen=True, kw_only=True, tag="create_topic"):
    topic: str
    assignment: dict[str, list[int]]
    config: dict[str, str] = {}


class GrowTopic(Waiting, frozen=True, kw_only=True, tag="grow_topic"):
    topic: str
    assignment: dict[str, list[int]]


class DeleteTopic(Waiting, frozen=True, kw_only=True, tag="delete_topic"):
    topic: str


class Reassign(Waiting, frozen=True, kw_only=True, tag="reassign"):
    """`moves`: (topic, partition, target replicas). `mode`: create, set (overwrite) or recreate (delete first)."""

    moves: tuple[tuple[str, int, list[int]], ...]
    mode: str = "create"


class PreferredElection(Waiting, frozen=True, kw_only=True, tag="preferred_election"):
    partitions: tuple[tuple[str, int], ...]

    @property
    def implied(self) -> tuple[Condition, ...]:
        return ({"election_done": True},)


class SetTopicConfig(Waiting, frozen=True, kw_only=True, tag="set_topic_config"):
    topic: str
    config: dict[str, str]
    notify: bool = True


class WriteZnode(Waiting, frozen=True, kw_only=True, tag="write_znode"):
    """Any node, by hand. `op`: create, delete or merge: the keys of `data` replace those in the JSON that is there,
    and null takes a key away. `data`: text as it stands, or something to put into JSON.
    """

    op: str
    path: str
    data: Any = ""
    sequential: bool = False


class Produce(Waiting, frozen=True, kw_only=True, tag="produce"):
    QUIET_S: ClassVar[float] = 1.5
    topic: str
    count: int
    partition: int = 0
    acks: str | int = "all"


class Wait(Waiting, frozen=True, kw_only=True, tag="wait"):
    seconds: float = 0.0


Fault = (
    Kill
    | Stop
    | Start
    | Pause
    | Resume
    | KillController
    | RestartController
    | PauseController
    | ResumeController
    | DeleteControllerZnode
)
ZnodeWrite = CreateTopic | GrowTopic | DeleteTopic | Reassign | PreferredElection | SetTopicConfig
Step = StartBrokers | Fault | ZnodeWrite | WriteZnode | Produce | Wait


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """`config`: Kafka keys that differ from BASE_CONFIG in this scenario."""

    name: str
    about: str
    steps: tuple[Step, ...]
    tags: tuple[str, ...] = ()
    config: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {**BASE_CONFIG, **self.config}


BASE_CONFIG: dict[str, Any] = {
    "zookeeper.session.timeout.ms": 6000,
    "replica.lag.time.max.ms": 4000,
    "auto.leader.rebalance.enable": False,
    "leader.imbalance.check.interval.seconds": 5,
    "controlled.shutdown.enable": True,
    "unclean.leader.election.enable": False,
    "min.insync.replicas": 1,
    "delete.topic.enable": True,
    "auto.create.topics.enable": False,
}
CONTROLLER_SESSION_MS = 30_000
"""Longer than a broker's, so that a controller that hangs stays active while brokers come and go."""


def load(name: str) -> Scenario:
    scenario = msgspec.json.decode((SCENARIOS / f"{name}.json").read_bytes(), type=Scenario)
    assert scenario.name == name, f"{name}.json is called {scenario.name!r} inside"
    return scenario


def all_names() -> list[str]:
    return sorted(path.stem for path in SCENARIOS.glob("*.json"))
