"""Examines a survey: what forbids adoption, what the operator should know, what will change, what to run.

Pure functions; each finding is a sentence for people.
"""

from collections.abc import Iterator

from msgspec import Struct

from adoption.candidate_checks import hosts_elsewhere, why_unfit
from adoption.controller_commands import controller_commands, generated_above, scrape_job
from adoption.refusals import refusals
from adoption.survey import SHOWN, Survey, listed
from adoption.wanted import ALLOW_UNLISTED, FIND_BY_REGISTRATION, AuthorizerKind, Wanted, protocol_of, wanted
from cluster.model.broker import ControllerId
from cluster.model.takeover import AdoptedMode


class Findings(Struct, frozen=True):
    """`refusals`: why the cluster cannot be adopted. `notes`: what it would be good to know or to end first.
    `scrape_job`: for Prometheus.
    """

    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[str, ...]
    commands: tuple[str, ...]
    scrape_job: str


def examine(survey: Survey, zookeeper: str, mode: AdoptedMode) -> Findings:
    """Examine what was surveyed. `zookeeper`: the connect string, for the commands."""
    needed = wanted(survey)
    unfit = (
        f"candidate {candidate.id} {why}"
        for candidate in survey.candidates.values()
        for why in (why_unfit(candidate, survey, needed) if survey.asked else ())
    )
    return Findings(
        (*refusals(survey), *unfit),
        tuple(_notes(survey, needed)),
        tuple(_changes(survey, mode)),
        tuple(controller_commands(survey, needed, zookeeper)),
        scrape_job(needed),
    )


def _notes(survey: Survey, needed: Wanted) -> Iterator[str]:
    if survey.is_leaderless:
        dead = f"/controller names {survey.controller}, which does not run" if survey.controller >= 0 else ""
        yield f"nobody is the active controller, so no leaders are elected: {dead or 'there is no /controller'}"
    yield from _differences(survey, needed)
    if len({broker.registered.rack is None for broker in survey.brokers}) > 1:
        yield "some brokers have a rack and others have none; brokers then refuse to create topics by themselves"
    absent = {
        broker: replicas for broker, replicas in survey.absent.items() if ControllerId(broker) not in survey.candidates
    }
    if absent:
        yield (
            f"{sum(absent.values()):,} replicas are assigned to brokers that are not registered: "
            f"{listed(list(absent))}; they are down, or were removed before their partitions were moved"
        )
    if survey.deleting:
        yield f"topics are being deleted, which klamm will continue: {listed(survey.deleting)}"
    if survey.reassigning:
        yield f"partitions are being reassigned, which klamm will continue: {listed(survey.reassigning)}"
    for path, why in sorted(survey.malformed.items())[:SHOWN]:
        yield f"{path} is malformed: {why}; klamm will leave it alone and report it"
    if len(survey.malformed) > SHOWN:
        yield f"{len(survey.malformed) - SHOWN} more znodes are malformed"
    yield from _of_controllers(survey, needed)
    if survey.adoption is not None:
        yield f"the cluster is adopted already, in mode {survey.adoption.mode}, by {survey.adoption.by}"


def _differences(survey: Survey, needed: Wanted) -> Iterator[str]:
    """Say where brokers differ although klamm can do with one value."""
    protocols = sorted({p for broker in survey.brokers if (p := protocol_of(broker)) is not None})
    if len({protocol.exact for protocol in protocols}) > 1:
        found = listed(protocols)
        yield f"brokers differ in inter.broker.protocol.version ({found}): klamm needs the lowest until all agree"
    names = {tuple(e.listener for e in broker.registered.endpoints) for broker in survey.brokers}
    if len(names) > 1:
        yield "brokers differ in their listeners; klamm needs all of them"
    for listener in needed.listeners:
        demands = {b.client_auth(e) for b in survey.asked if (e := b.registered.endpoint(listener.name)) is not None}
        if len(demands) > 1:
            yield (
                f"brokers differ in the client authentication of {listener.name} ({listed(sorted(demands))}): klamm "
                f"needs {listener.client_auth}"
            )
    for key, values in needed.settings.items():
        if len(values) > 1:
            yield f"brokers differ in {key} ({listed(values)}): under klamm its controllers' value counts alone"


def _of_controllers(survey: Survey, needed: Wanted) -> Iterator[str]:
    """Say what the operator has to know of the controllers."""
    if "zookeeper.set.acl" in needed.settings:
        by = (
            "a certificate with their distinguished name" if needed.zookeeper_tls else "java.security.auth.login.config"
        )
        yield f"brokers set ACLs in ZooKeeper: klamm needs their identity ({by})"
    yield from _of_rights(survey, needed)
    if needed.authenticates and not needed.guards_grpc:
        yield (
            "brokers ask clients who they are, and klamm's gRPC listener has neither TLS nor authentication yet: "
            "the controllers have it on 127.0.0.1, so run klamm's commands on their hosts"
        )
    hosts = {e.host for broker in survey.brokers for e in broker.registered.endpoints}
    if hosts and hosts <= {"localhost", "127.0.0.1", "::1"}:
        yield f"brokers are advertised as {listed(sorted(hosts))}: controllers must run on this machine"
    if any(broker.config("alter.config.policy.class.name") for broker in survey.asked):
        yield "brokers have an alter.config.policy.class.name, which klamm's own commands do not ask"
    reserved = [highest for broker in survey.asked if (highest := generated_above(broker)) is not None]
    if reserved and any(broker.id > min(reserved) for broker in survey.brokers):
        yield (
            f"ids above {min(reserved)} are given out by ZooKeeper here: a candidate with such an id may collide with "
            "the next broker"
        )
    for candidate in survey.candidates.values():
        listeners = () if candidate.profile is None else candidate.profile.listeners
        local = [listener.name for listener in listeners if hosts_elsewhere(listener, survey)]
        if local:
            yield f"clients elsewhere do not reach candidate {candidate.id} at {listed(local)}: it is on loopback"
    if len(survey.candidates) == 1:
        yield "there is one candidate: when it dies, no controller of klamm is left; start a second one"
    profiles = [candidate.profile for candidate in survey.candidates.values() if candidate.profile is not None]
    machines = {profile.listeners[0].host for profile in profiles if profile.listeners}
    if len(survey.candidates) > 1 and len(machines) == 1:
        yield f"all candidates are on one host ({min(machines)})"


def _of_rights(survey: Survey, needed: Wanted) -> Iterator[str]:
    """Say how clients will be judged, and which settings brokers do not tell."""
    if needed.authorizer is AuthorizerKind.ACL:
        hidden = [key for key in ("super.users", ALLOW_UNLISTED) if any(broker.hides(key) for broker in survey.asked)]
        untold = f"; brokers do not tell {listed(hidden)}: give the controllers the same" if hidden else ""
        yield (
            "brokers authorise by access control lists, and so will klamm, by the same lists and by who the client is "
            f"and where{untold}"
        )
    elif needed.authorizer is AuthorizerKind.OTHER:
        named = listed(sorted({broker.authorizer for broker in survey.asked if broker.authorizer}))
        yield (
            f"brokers have the authorizer {named}, which klamm cannot ask: its controllers will answer brokers only "
            "and refuse clients; topics are created and deleted, and partitions moved, by klamm's own commands"
        )
    if needed.guards_grpc:
        made = "" if needed.has_tls else "; the brokers have none, and 'klamm certs create' makes some"
        yield (
            "klamm's own commands need a certificate of a principal that has the rights: give them --command-config"
            f"{made}"
        )


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
    if any((p := protocol_of(broker)) is not None and p < FIND_BY_REGISTRATION for broker in survey.brokers):
        yield (
            "brokers before 3.0 look for the controller under /brokers/ids when they shut down: "
            "set klamm.kafka.register.as.broker=true"
        )
