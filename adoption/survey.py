"""What `klamm adopt` found in a running cluster: plain values, which `adoption.findings` examines."""

from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import NO_CONTROLLER, Broker, BrokerId, ControllerEpoch, ControllerId
from cluster.znodes.adoption import Adoption


class BrokerAnswers(Struct, frozen=True):
    """What a broker says of itself. `versions`: API key -> its highest version. `has_authorizer`: None if unknown.

    `controller`: whom it obeys, by its metadata; -1 for nobody.
    """

    versions: Mapping[int, int] = {}
    has_authorizer: bool | None = None
    configs: Mapping[str, str] = {}
    controller: ControllerId = NO_CONTROLLER


class SurveyedBroker(Struct, frozen=True):
    """A registered broker; `answers` None if it could not be asked, and `why_not` says why."""

    registered: Broker
    answers: BrokerAnswers | None = None
    why_not: str = ""

    @property
    def id(self) -> BrokerId:
        return self.registered.id

    def config(self, key: str) -> str:
        """The effective value of a setting; empty if it is not set or unknown."""
        return "" if self.answers is None else self.answers.configs.get(key, "")


class Survey(Struct, frozen=True):
    """`controller`: by `/controller`, -1 for none. `candidates`: those of klamm, id -> address.

    `absent`: brokers that are not registered -> how many replicas are assigned to them. `malformed`:
    path -> why. `is_migrating`: a migration to KRaft has begun.
    """

    cluster_id: str
    controller: ControllerId
    controller_epoch: ControllerEpoch
    brokers: tuple[SurveyedBroker, ...]
    candidates: Mapping[ControllerId, str] = {}
    adoption: Adoption | None = None
    topics: int = 0
    partitions: int = 0
    absent: Mapping[BrokerId, int] = {}
    deleting: tuple[str, ...] = ()
    reassigning: tuple[str, ...] = ()
    malformed: Mapping[str, str] = {}
    is_migrating: bool = False

    @property
    def is_governed_by_klamm(self) -> bool:
        return self.controller in self.candidates

    @property
    def is_leaderless(self) -> bool:
        """Whether nobody elects leaders: `/controller` is missing, or names whom is not registered any more."""
        return not self.is_governed_by_klamm and self.controller not in {int(broker.id) for broker in self.brokers}
