"""Compares a registered candidate with the brokers: why it must not govern them, and which line to add to its command.

Pure functions; each reason is a sentence for people that follows the candidate's name.
"""

import shlex
from collections.abc import Iterator

from adoption.controller_commands import (
    ENABLED_MECHANISMS,
    client_auth_key,
    listener_key,
    needs_protocol_map,
    protocol_map,
    rights_settings,
)
from adoption.survey import Survey, SurveyedCandidate, listed
from adoption.wanted import AUTHENTICATION, AuthorizerKind, Wanted, WantedListener
from cluster.model.broker import BrokerId
from cluster.model.listeners import is_loopback
from cluster.model.protocol_version import ProtocolVersion
from cluster.sasl.mechanisms import GSSAPI
from cluster.security.kerberos_names import SETTING as KERBEROS_RULES
from cluster.znodes.candidates import CandidateListener, CandidateProfile


def why_unfit(candidate: SurveyedCandidate, survey: Survey, wanted: Wanted) -> Iterator[str]:
    """Yield each reason; none if it may govern these brokers."""
    yield from _why_not_by_id(candidate, survey)
    profile = candidate.profile
    if profile is None:
        yield candidate.malformed or (
            "does not say what it is, as candidates before klamm 0.3 do not: start it with the release of this 'klamm "
            "adopt'"
        )
    elif profile.broker_protocol != "kafka":
        yield _add("governs brokers of klamm", "klamm.broker.protocol=kafka")
    elif profile.unfit:
        yield f"takes no part in elections: it {profile.unfit}"
    else:
        yield from _why_not_by_protocol(profile, survey, wanted)
        yield from _why_not_by_names(profile, wanted)
        yield from _why_not_by_listeners(profile, survey, wanted)
        yield from _why_not_by_security(profile, wanted)
        yield from _why_not_by_rights(profile, wanted)
        yield from _why_not_by_settings(profile, wanted)


def _add(why: str, *settings: str) -> str:
    return f"{why}: add {' '.join(f'--override {setting}' for setting in settings)}"


def _why_not_by_id(candidate: SurveyedCandidate, survey: Survey) -> Iterator[str]:
    if candidate.id in {int(broker.id) for broker in survey.brokers}:
        yield "has the id of a broker: start it with another --id"
    for broker, replicas in survey.absent.items():
        # Brokers may have placed replicas on a controller that is among the brokers they know; klamm replaces these.
        if int(broker) == candidate.id and not survey.is_governed_by_klamm:
            yield f"has the id of an unregistered broker with {replicas:,} replicas: start it with another --id"


def _why_not_by_protocol(profile: CandidateProfile, survey: Survey, wanted: Wanted) -> Iterator[str]:
    if wanted.protocol is None:
        return
    try:
        own = ProtocolVersion.parse(profile.protocol_version).exact
    except ValueError:
        own = None
    if own != wanted.protocol.exact:
        lowest = [
            broker.id
            for broker in survey.asked
            if broker.config("inter.broker.protocol.version").strip() == str(wanted.protocol)
        ]
        of = f" of brokers {listed(lowest)}" if lowest else " of the brokers"
        yield _add(
            f"has inter.broker.protocol.version {profile.protocol_version}, not the {wanted.protocol}{of}",
            f"inter.broker.protocol.version={wanted.protocol}",
        )
    if wanted.registers_as_broker and not profile.registers_as_broker:
        yield _add(
            "is not registered under /brokers/ids, where brokers before 3.0 look for the controller to shut down",
            "klamm.kafka.register.as.broker=true",
        )


def _why_not_by_names(profile: CandidateProfile, wanted: Wanted) -> Iterator[str]:
    if profile.inter_broker_listener != wanted.inter_broker_listener:
        yield _add(
            f"takes {profile.inter_broker_listener} for the listener between brokers, which is "
            f"{wanted.inter_broker_listener}",
            f"inter.broker.listener.name={wanted.inter_broker_listener}",
        )
    if wanted.control_plane_listener and profile.control_plane_listener != wanted.control_plane_listener:
        named = wanted.listener(wanted.control_plane_listener)
        what = "which it is not" if named is None else f"which is {wanted.control_plane_listener}"
        yield _add(
            f"takes {profile.control_plane_listener} for the listener of brokers for controllers, {what}",
            f"control.plane.listener.name={wanted.control_plane_listener}",
        )


def _why_not_by_listeners(profile: CandidateProfile, survey: Survey, wanted: Wanted) -> Iterator[str]:
    own = {listener.name: listener for listener in profile.listeners}
    needed = wanted.listeners
    if profile.refuses_clients:
        needed = tuple(listener for listener in needed if listener.name in wanted.of_brokers)
    missing = [listener for listener in needed if listener.name not in own]
    if missing:
        has = [f"{listener.name}://{listener.address}" for listener in profile.listeners]
        lacks = [f"{listener.name}://HOST:PORT" for listener in missing]
        yield _add(
            f"has no Kafka listener {listed([m.name for m in missing])}, under which brokers "
            f"{listed(missing[0].brokers)} and their clients look for the controller",
            f"klamm.kafka.listeners={','.join([*has, *lacks])}",
            *([f"listener.security.protocol.map={protocol_map(wanted)}"] if needs_protocol_map(wanted) else []),
        )
    for listener in wanted.listeners:
        found = own.get(listener.name)
        if found is not None:
            yield from _why_not_by_listener(found, listener, wanted)
            yield from _why_not_by_address(found, survey, wanted)
    yield from _why_not_by_more_listeners(profile, wanted)


def _why_not_by_more_listeners(profile: CandidateProfile, wanted: Wanted) -> Iterator[str]:
    """Yield its listeners that no broker has, where brokers ask who clients are: there it would ask otherwise."""
    if not (wanted.authenticates or wanted.authorizer is not AuthorizerKind.NONE):
        return
    more = [one.name for one in profile.listeners if wanted.listener(one.name) is None]
    if more:
        kept = [f"{one.name}://{one.address}" for one in profile.listeners if one.name not in more]
        yield (
            f"has the Kafka listener {listed(more)}, which no broker has, and these brokers demand certificates or "
            f"SASL, or authorise: leave it out of --override klamm.kafka.listeners={','.join(kept)}"
        )


def _why_not_by_listener(own: CandidateListener, listener: WantedListener, wanted: Wanted) -> Iterator[str]:
    if own.security_protocol != listener.security_protocol:
        yield _add(
            f"has {own.security_protocol} at its Kafka listener {own.name}, brokers {listed(listener.brokers)} have "
            f"{listener.security_protocol}",
            f"listener.security.protocol.map={protocol_map(wanted)}",
        )
    elif _strictness(own.client_auth) != _strictness(listener.client_auth):
        yield _add(
            f"has client authentication {own.client_auth} at its Kafka listener {own.name}, brokers "
            f"{listed(listener.brokers)} have {listener.client_auth}",
            f"{client_auth_key(own.name)}={listener.client_auth}",
        )
    elif lacks := set(listener.mechanisms) - set(own.mechanisms):
        yield _add(
            f"does not have the SASL mechanisms {listed(sorted(lacks))} of brokers {listed(listener.brokers)} at its "
            f"Kafka listener {own.name}",
            f"{listener_key(own.name, ENABLED_MECHANISMS)}={','.join(listener.mechanisms)}",
        )
    elif listener.mechanisms and (more := set(own.mechanisms) - set(listener.mechanisms)):
        yield _add(
            f"has the SASL mechanisms {listed(sorted(more))} at its Kafka listener {own.name}, which no broker has "
            "there",
            f"{listener_key(own.name, ENABLED_MECHANISMS)}={','.join(listener.mechanisms)}",
        )
    elif wanted.authorizer is not AuthorizerKind.NONE and own.principal_mapping != listener.principal_mapping:
        yield _add(
            f"names the users of certificates at its Kafka listener {own.name} by {own.principal_mapping}, brokers "
            f"{listed(listener.brokers)} by {listener.principal_mapping}",
            shlex.quote(f"{listener_key(own.name, 'ssl.principal.mapping.rules')}={listener.principal_mapping}"),
        )

    elif _names_by_kerberos(listener, wanted) and own.kerberos_mapping != listener.kerberos_mapping:
        yield _add(
            f"names the users of Kerberos principals at its Kafka listener {own.name} by {own.kerberos_mapping}, "
            f"brokers {listed(listener.brokers)} by {listener.kerberos_mapping}",
            shlex.quote(f"{listener_key(own.name, KERBEROS_RULES)}={listener.kerberos_mapping}"),
        )


def _names_by_kerberos(listener: WantedListener, wanted: Wanted) -> bool:
    """Whether rights are of users that rules make from principals."""
    return wanted.authorizer is not AuthorizerKind.NONE and GSSAPI in listener.mechanisms


def _strictness(demand: str) -> int:
    return AUTHENTICATION.index(demand) if demand in AUTHENTICATION else -1


def _why_not_by_address(own: CandidateListener, survey: Survey, wanted: Wanted) -> Iterator[str]:
    found = [(b.id, e) for b in survey.brokers for e in b.registered.endpoints if e.listener == own.name]
    for broker, endpoint in found:
        if (endpoint.host, endpoint.port) == (own.host, own.port):
            yield (
                f"says that its Kafka listener {own.name} is at {own.address}, where broker {broker} is: give it an "
                "address of its own in --override klamm.kafka.listeners"
            )
    elsewhere = hosts_elsewhere(own, survey)
    # Brokers themselves use these two; who uses the others is told beforehand.
    if elsewhere and own.name in {wanted.inter_broker_listener, wanted.control_plane_listener}:
        yield (
            f"says that its Kafka listener {own.name} is at {own.address}, by which brokers {listed(elsewhere)} "
            "reach nobody but their own host: name its host in --override klamm.kafka.listeners or "
            "klamm.kafka.advertised.listeners"
        )


def hosts_elsewhere(own: CandidateListener, survey: Survey) -> list[BrokerId]:
    """The brokers whose listener of the same name is for other hosts, where the candidate's is for its own only."""
    if not is_loopback(own.host):
        return []
    endpoints = [(broker.id, broker.registered.endpoint(own.name)) for broker in survey.brokers]
    return [id_ for id_, endpoint in endpoints if endpoint is not None and not is_loopback(endpoint.host)]


def _why_not_by_security(profile: CandidateProfile, wanted: Wanted) -> Iterator[str]:
    if wanted.needs_certificate and not profile.has_certificate:
        yield _add(
            "has no certificate to show to brokers, which demand one", "ssl.keystore.location=KEY-AND-CERTIFICATE.pem"
        )
    if (wanted.authenticates or wanted.authorizer is not AuthorizerKind.NONE) and not profile.is_grpc_local:
        yield (
            "listens for klamm's commands on more than its own host, where they are neither encrypted nor "
            "authenticated, and these brokers demand certificates or SASL, or authorise: start it with --listen "
            "127.0.0.1:9701, or with TLS there (listener.security.protocol.map has GRPC:SSL,GRPC_CONTROL:SSL, "
            "ssl.client.auth=required)"
        )


def _why_not_by_rights(profile: CandidateProfile, wanted: Wanted) -> Iterator[str]:
    """Yield what would let clients do through it what brokers forbid, or keep brokers from being answered."""
    needed = [f"{key}={value}" for key, value in rights_settings(wanted)]
    if wanted.authorizer is AuthorizerKind.NONE:
        if profile.authorises or profile.refuses_clients:
            yield (
                "authorises, and these brokers have no authorizer: it would not let them do what brokers do; remove "
                "authorizer.class.name and klamm.kafka.controller.only from its command"
            )
    elif wanted.authorizer is AuthorizerKind.OTHER and not profile.refuses_clients:
        yield _add("answers clients, and cannot judge them as the authorizer of these brokers does", *needed)
    elif not (profile.authorises or profile.refuses_clients):
        yield _add("has no authorizer: through it anybody could do what that of the brokers forbids", *needed)
    elif profile.allows_unlisted and not wanted.allows_unlisted:
        yield (
            "has allow.everyone.if.no.acl.found=true, which no broker has: through it everyone could do what they "
            "forbid; remove it from its command"
        )


def _why_not_by_settings(profile: CandidateProfile, wanted: Wanted) -> Iterator[str]:
    if wanted.racks and profile.rack is None:
        yield _add("has no rack, and brokers with racks then create no topics", f"klamm.kafka.rack={wanted.racks[0]}")
    for key, values in wanted.settings.items():
        own = profile.settings.get(key, "").lower()
        if own not in values:
            yield _add(f"has {key} {own or 'unset'}, the brokers {listed(values)}", f"{key}={values[0]}")
