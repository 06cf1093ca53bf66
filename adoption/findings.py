"""Examines a survey: what forbids adoption, what the operator should know, what will change, what to run.

Pure functions; each finding is a sentence for people.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from adoption.survey import Survey, SurveyedBroker
from cluster.protocol_version import OLDEST_KAFKA, ProtocolVersion
from cluster.takeover import AdoptedMode

_FIND_BY_REGISTRATION: Final = ProtocolVersion((3, 0), 0)
"""From here on brokers find a controller otherwise than under `/brokers/ids` at a controlled shutdown."""
_LEADER_AND_ISR: Final = 4
_STOP_REPLICA: Final = 5
_RELEASES: Final = {4: "2.6 to 2.7", 5: "2.8 to 3.1", 6: "3.2 to 3.3", 7: "3.4 to 3.9"}
"""Highest version of LeaderAndIsr -> releases."""
_FIRST_ID: Final = 901
_SHOWN: Final = 5


class Findings(Struct, frozen=True):
    """`refusals`: why the cluster cannot be adopted. `notes`: what it would be good to know or to end first."""

    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[str, ...]
    commands: tuple[str, ...]


def examine(survey: Survey, zookeeper: str, mode: AdoptedMode) -> Findings:
    """`zookeeper`: the connect string, for the commands."""
    return Findings(
        tuple(_refusals(survey)),
        tuple(_notes(survey)),
        tuple(_changes(survey, mode)),
        tuple(_commands(survey, zookeeper)),
    )


def releases_of(broker: SurveyedBroker) -> str:
    """The releases whose control requests the broker takes; empty if it did not answer."""
    if broker.answers is None:
        return ""
    newest = broker.answers.versions.get(_LEADER_AND_ISR, -1)
    if newest == min(_RELEASES) and broker.answers.versions.get(_STOP_REPLICA, 0) < 3:
        return "2.4 to 2.5"
    return _RELEASES.get(newest, "before 2.4" if newest < min(_RELEASES) else "after 3.9")


def protocol_of(broker: SurveyedBroker) -> ProtocolVersion | None:
    """Its `inter.broker.protocol.version`; None if unknown or newer than any in ZooKeeper mode."""
    try:
        return ProtocolVersion.parse(broker.config("inter.broker.protocol.version"))
    except ValueError:
        return None


def _refusals(survey: Survey) -> Iterator[str]:
    if not survey.brokers:
        yield "no broker is registered: is this the cluster's ZooKeeper, with its chroot?"
    if survey.is_migrating:
        yield (
            "a migration to KRaft has begun (/migration, or /controller names a KRaft controller): finish it, or roll "
            "it back, as Kafka's documentation says"
        )
    for broker in survey.brokers:
        yield from (f"broker {broker.id} {why}" for why in _refusals_of(broker))
    shared = sorted(survey.candidates.keys() & {broker.id for broker in survey.brokers})
    if shared:
        yield f"controllers have the ids of brokers: {_listed(shared)}; start them with others"


def _refusals_of(broker: SurveyedBroker) -> Iterator[str]:
    if broker.registered.klamm_version:
        yield f"runs klamm {broker.registered.klamm_version}: its controllers are klamm's already"
    with_sasl = [e.listener for e in broker.registered.endpoints if e.security_protocol.startswith("SASL_")]
    if with_sasl:
        yield f"has a listener with SASL ({_listed(with_sasl)}), which klamm cannot authenticate itself to yet"
    if broker.answers is None:
        yield f"cannot be asked: {broker.why_not}"
        return
    if broker.answers.has_authorizer or broker.config("authorizer.class.name"):
        yield (
            "has an authorizer: through klamm's listener anybody could do what it forbids, as klamm does not "
            "authorise yet"
        )
    if broker.config("zookeeper.metadata.migration.enable") == "true":
        yield "has zookeeper.metadata.migration.enable=true: a migration to KRaft is being prepared"
    protocol = protocol_of(broker)
    if releases_of(broker) in {"before 2.4", "after 3.9"} or protocol is None or protocol < OLDEST_KAFKA:
        found = broker.config("inter.broker.protocol.version") or "unknown"
        yield f"is of {releases_of(broker)}, inter.broker.protocol.version {found}: klamm governs 2.4 to 3.9"


def _notes(survey: Survey) -> Iterator[str]:
    if survey.is_leaderless:
        dead = f"/controller names {survey.controller}, which does not run" if survey.controller >= 0 else ""
        yield f"nobody is the active controller, so no leaders are elected: {dead or 'there is no /controller'}"
    protocols = sorted({p for broker in survey.brokers if (p := protocol_of(broker)) is not None})
    if len(protocols) > 1:
        found = _listed(protocols)
        yield f"brokers differ in inter.broker.protocol.version ({found}): klamm needs the lowest until all agree"
    names = {tuple(e.listener for e in broker.registered.endpoints) for broker in survey.brokers}
    if len(names) > 1:
        yield "brokers differ in their listeners; klamm needs those that all of them have"
    if len({broker.registered.rack is None for broker in survey.brokers}) > 1:
        yield "some brokers have a rack and others have none; brokers then refuse to create topics by themselves"
    if survey.absent:
        yield (
            f"{sum(survey.absent.values()):,} replicas are assigned to brokers that are not registered: "
            f"{_listed(list(survey.absent))}; they are down, or were removed before their partitions were moved"
        )
    if survey.deleting:
        yield f"topics are being deleted, which klamm will go on with: {_listed(survey.deleting)}"
    if survey.reassigning:
        yield f"partitions are being reassigned, which klamm will go on with: {_listed(survey.reassigning)}"
    for path, why in sorted(survey.malformed.items())[:_SHOWN]:
        yield f"{path} is malformed: {why}; klamm will leave it alone and report it"
    if len(survey.malformed) > _SHOWN:
        yield f"{len(survey.malformed) - _SHOWN} more znodes are malformed"
    if any(broker.config("zookeeper.set.acl") == "true" for broker in survey.brokers):
        yield "brokers set ACLs in ZooKeeper: klamm needs their identity (java.security.auth.login.config)"
    if survey.adoption is not None:
        yield f"the cluster is adopted already, in mode {survey.adoption.mode}, by {survey.adoption.by}"


def _changes(survey: Survey, mode: AdoptedMode) -> Iterator[str]:
    if survey.is_governed_by_klamm:
        yield f"the active controller is klamm's already: {survey.controller}, epoch {survey.controller_epoch}"
    else:
        holder = "nobody" if survey.is_leaderless else f"broker {survey.controller}"
        yield (
            f"the active controller: {holder}, epoch {survey.controller_epoch}, is replaced by a controller of klamm "
            f"with epoch {survey.controller_epoch + 1}; no partition changes its leader by that"
        )
    yield (
        "atomic: when no controller of klamm lives, a broker becomes the controller, and klamm takes over again later"
        if mode == "atomic"
        else "persistent: brokers never become the controller; when no controller of klamm lives, nobody elects "
        "leaders, unless the last one was stopped orderly or 'klamm leave' has run"
    )
    yield (
        "the controller metrics of all brokers go to 0: kafka.controller:type=KafkaController,"
        "name=ActiveControllerCount, so alerts on its sum being unlike 1 fire, and likewise OfflinePartitionsCount, "
        "GlobalPartitionCount, GlobalTopicCount and ControllerStats: scrape klamm's controllers as well (below), which "
        "have them under the same names"
    )
    yield (
        "tools show one id more: the active controller is in the metadata of all brokers, so that clients find it; "
        "it hosts no partitions"
    )
    if any((p := protocol_of(broker)) is not None and p < _FIND_BY_REGISTRATION for broker in survey.brokers):
        yield (
            "brokers before 3.0 look for the controller under /brokers/ids when they shut down: "
            "set klamm.kafka.register.as.broker=true"
        )


def _commands(survey: Survey, zookeeper: str) -> Iterator[str]:
    taken = {broker.id for broker in survey.brokers} | survey.absent.keys()
    ids = [number for number in range(_FIRST_ID, _FIRST_ID + len(taken) + 2) if number not in taken][:2]
    for position, number in enumerate(ids):
        options = [
            f"--id {number}",
            f"--zookeeper {zookeeper}",
            f"--listen HOST:{9701 + 10 * position}",
            f"--metrics-listen HOST:{7701 + position}",
            f"--data /var/lib/klamm/controller-{number}",
            *(f"--override {key}={value}" for key, value in _settings(survey, position)),
        ]
        yield " \\\n  ".join(("klamm controller", *options))


def _settings(survey: Survey, position: int) -> Iterator[tuple[str, str]]:
    yield "klamm.broker.protocol", "kafka"
    protocols = [p for broker in survey.brokers if (p := protocol_of(broker)) is not None]
    if protocols:
        yield "inter.broker.protocol.version", str(min(protocols))
    yield from _listeners(survey, 19092 + 10 * position)
    for key in ("inter.broker.listener.name", "control.plane.listener.name"):
        found = {broker.config(key) for broker in survey.brokers} - {""}
        if len(found) == 1 and (key.startswith("control") or found != {"PLAINTEXT"}):
            yield key, found.pop()
    racks = sorted({broker.registered.rack for broker in survey.brokers if broker.registered.rack is not None})
    if racks:
        yield "klamm.kafka.rack", racks[position % len(racks)]
    if any(protocol < _FIND_BY_REGISTRATION for protocol in protocols):
        yield "klamm.kafka.register.as.broker", "true"


def _listeners(survey: Survey, first_port: int) -> Iterator[tuple[str, str]]:
    """Those of the first broker, with the same security; the operator has the certificates."""
    endpoints = survey.brokers[0].registered.endpoints if survey.brokers else ()
    names = [endpoint.listener for endpoint in endpoints] or ["PLAINTEXT"]
    yield "klamm.kafka.listeners", ",".join(f"{name}://HOST:{first_port + i}" for i, name in enumerate(names))
    if any(endpoint.listener != endpoint.security_protocol for endpoint in endpoints):
        yield "listener.security.protocol.map", ",".join(f"{e.listener}:{e.security_protocol}" for e in endpoints)
    if any(endpoint.security_protocol == "SSL" for endpoint in endpoints):
        yield "ssl.keystore.location", "KEY-AND-CERTIFICATE.pem"
        yield "ssl.truststore.location", "AUTHORITIES.pem"
        # Through a controller that asks for none, anybody could do what brokers ask a certificate for.
        if any(broker.config("ssl.client.auth") == "required" for broker in survey.brokers):
            yield "ssl.client.auth", "required"


SCRAPE_JOB: Final = """\
- job_name: klamm-controller
  static_configs:
    - targets: [HOST:7701, HOST:7702]  # --metrics-listen of the controllers"""


def _listed(items: Sequence[object]) -> str:
    shown = ", ".join(map(str, items[:_SHOWN]))
    return shown + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
