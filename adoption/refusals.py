"""What of a cluster forbids that it is adopted, whoever its candidates are. Pure functions; each is a sentence."""

from collections.abc import Iterable, Iterator
from typing import Final

from adoption.survey import Survey, SurveyedBroker, listed
from adoption.wanted import protocol_of
from cluster.config.kafka_listeners import PROTOCOLS, is_listener_name
from cluster.model import bounds
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError
from cluster.model.protocol_version import OLDEST_KAFKA
from cluster.sasl.mechanisms import GSSAPI, MECHANISMS
from cluster.security.kerberos_names import SETTING as KERBEROS_RULES
from cluster.security.kerberos_names import parse_kerberos_rules
from cluster.security.mapping import parse_mapping_rules

_LEADER_AND_ISR: Final = 4
_STOP_REPLICA: Final = 5
_RELEASES: Final = {4: "2.6 to 2.7", 5: "2.8 to 3.1", 6: "3.2 to 3.3", 7: "3.4 to 3.9"}
"""Highest version of LeaderAndIsr -> releases."""
_GIVE_IDENTITY: Final = ": give --command-config the identity of the brokers or of a super user"
DEFAULT_PRINCIPAL_BUILDERS: Final = (
    "",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
)
_SPEAKS: Final = f"which klamm does not speak: it speaks {', '.join(MECHANISMS)}"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_KNOWN_HANDLERS: Final = (
    f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
)
_ACLS_ELSEWHERE: Final = "authorizer.zookeeper.url"
_TOKEN_KEYS: Final = ("delegation.token.master.key", "delegation.token.secret.key")


def releases_of(broker: SurveyedBroker) -> str:
    """The releases whose control requests the broker takes; empty if it did not answer."""
    if broker.answers is None:
        return ""
    newest = broker.answers.versions.get(_LEADER_AND_ISR, -1)
    if newest == min(_RELEASES) and broker.answers.versions.get(_STOP_REPLICA, 0) < 3:
        return "2.4 to 2.5"
    return _RELEASES.get(newest, "before 2.4" if newest < min(_RELEASES) else "after 3.9")


def refusals(survey: Survey) -> Iterator[str]:
    """Yield each reason; none if the cluster may be adopted by candidates that suit it."""
    if not survey.brokers:
        yield "no broker is registered: is this the cluster's ZooKeeper, with its chroot?"
    if survey.is_migrating:
        yield (
            "a migration to KRaft has begun (/migration, or /controller names a KRaft controller): finish it, or roll "
            "it back, as Kafka's documentation says"
        )
    yield from _of_zookeeper(survey)
    for broker in survey.brokers:
        yield from (f"broker {broker.id} {why}" for why in _of_broker(broker))
    yield from _of_differences(survey)


def _of_zookeeper(survey: Survey) -> Iterator[str]:
    uses_tls = any(broker.config("zookeeper.ssl.client.enable") == "true" for broker in survey.asked)
    what = (
        "a certificate with the brokers' distinguished name (zookeeper.ssl.keystore.location)"
        if uses_tls
        else "java.security.auth.login.config of the brokers' user"
    )
    for path in survey.not_writable:
        yield (
            f"the ACL of {path} does not let this identity change it: give {what} in --command-config, and to the "
            "controllers"
        )
    for path in survey.not_readable:
        yield (
            f"the ACL of {path} does not let this identity read it: give {what} in --command-config, and to the "
            "controllers"
        )


def _of_broker(broker: SurveyedBroker) -> Iterator[str]:
    if broker.registered.klamm_version:
        yield f"runs klamm {broker.registered.klamm_version}: its controllers are klamm's already"
    unusable = [e.listener for e in broker.registered.endpoints if not is_listener_name(e.listener)]
    if unusable:
        yield f"has a listener whose name klamm cannot have: {bounds.shortened(unusable[0])}"
    answers = broker.answers
    if answers is None:
        yield f"cannot be asked: {broker.why_not}"
    elif answers.no_configs:
        yield f"does not tell its settings: {answers.no_configs}{_GIVE_IDENTITY if broker.authorizer else ''}"
    if answers is not None and not answers.no_configs:
        yield from _of_settings(broker)
        yield from _of_control_listener(broker)
        yield from _of_sasl(broker)
        yield from _of_rights(broker)


def _of_sasl(broker: SurveyedBroker) -> Iterator[str]:
    """Yield what keeps klamm from authenticating itself to the broker, or clients as the broker does."""
    control, own = broker.control_endpoint, broker.config("sasl.mechanism.inter.broker.protocol") or GSSAPI
    if control is not None and control.has_sasl and own not in MECHANISMS:
        yield f"authenticates to other brokers by {own} (sasl.mechanism.inter.broker.protocol), {_SPEAKS}"
    for endpoint in broker.registered.endpoints:
        unknown = [name for name in broker.mechanisms(endpoint) if name not in MECHANISMS]
        if unknown and endpoint != control:
            yield (
                f"has the SASL mechanism {listed(unknown)} at its listener {endpoint.listener}, {_SPEAKS}: clients "
                "that use it would be refused by the controller"
            )
    answers = broker.answers
    handlers = {} if answers is None else answers.configs
    for key, handler in handlers.items():
        if key.endswith("sasl.server.callback.handler.class") and handler and handler not in _KNOWN_HANDLERS:
            yield f"has {key}={handler}, which klamm cannot ask whether a password or token is right"


def _of_rights(broker: SurveyedBroker) -> Iterator[str]:
    """Yield what keeps klamm from knowing who may do what, or from being obeyed."""
    if not broker.authorizer:
        return
    if broker.answers is not None and broker.answers.lets_control is False:
        yield f"does not let this client send what controllers send (ClusterAction on the cluster){_GIVE_IDENTITY}"
    if broker.hides(_ACLS_ELSEWHERE) or broker.config(_ACLS_ELSEWHERE):
        yield f"has {_ACLS_ELSEWHERE}: its access control lists are in another ZooKeeper, which klamm does not read"
    for key, builder in ({} if broker.answers is None else broker.answers.configs).items():
        # One listener may have its own.
        if key.endswith("principal.builder.class") and builder not in DEFAULT_PRINCIPAL_BUILDERS:
            yield f"has {key}={builder}, which klamm cannot ask who a client is: its rights are unknown"
    for endpoint in broker.registered.endpoints:
        if why := _why_no_names(broker, endpoint):
            yield why
            return


def _why_no_names(broker: SurveyedBroker, endpoint: Endpoint) -> str:
    """Say which rules for the names of users klamm does not understand; empty if it understands them."""
    try:
        parse_mapping_rules(broker.principal_mapping(endpoint.listener))
    except ConfigError as error:
        return f"has ssl.principal.mapping.rules that klamm does not understand: {'; '.join(error.errors)}"
    try:
        if GSSAPI in broker.mechanisms(endpoint):
            parse_kerberos_rules(broker.kerberos_mapping(endpoint.listener))
    except ConfigError as error:
        return f"has {KERBEROS_RULES} that klamm does not understand: {'; '.join(error.errors)}"
    return ""


def _of_settings(broker: SurveyedBroker) -> Iterator[str]:
    if broker.config("zookeeper.metadata.migration.enable") == "true":
        yield "has zookeeper.metadata.migration.enable=true: a migration to KRaft is being prepared"
    policy = broker.config("create.topic.policy.class.name")
    if policy:
        yield f"has create.topic.policy.class.name={policy}, which klamm cannot ask: it would create what that forbids"
    if broker.answers is not None and broker.answers.hidden & set(_TOKEN_KEYS):
        yield "has delegation tokens, which the controller deletes when they expire: klamm does not do that yet"
    protocol, releases = protocol_of(broker), releases_of(broker)
    if releases in {"before 2.4", "after 3.9"} or protocol is None or protocol < OLDEST_KAFKA:
        found = broker.config("inter.broker.protocol.version") or "unknown"
        yield f"is of {releases}, inter.broker.protocol.version {found}: klamm governs 2.4 to 3.9"


def _of_control_listener(broker: SurveyedBroker) -> Iterator[str]:
    endpoint = broker.control_endpoint
    if endpoint is None:
        yield (
            f"has no listener {broker.control_plane_listener or broker.inter_broker_listener} for controllers in its "
            "registration, though its settings name it: give it an advertised address"
        )
    elif endpoint.security_protocol in PROTOCOLS and broker.not_controllable:
        yield (
            f"cannot be asked at its listener {endpoint.listener} ({endpoint.address}), where controllers send it "
            f"requests: {broker.not_controllable}"
        )


def _of_differences(survey: Survey) -> Iterator[str]:
    yield from _of_difference(
        "in the listener between brokers (inter.broker.listener.name)",
        [(broker.id, broker.inter_broker_listener) for broker in survey.asked],
    )
    yield from _of_difference(
        "in control.plane.listener.name",
        [(broker.id, broker.control_plane_listener or "none") for broker in survey.asked],
    )
    yield from _of_difference(
        "in authorizer.class.name", [(broker.id, broker.authorizer or "none") for broker in survey.asked]
    )
    endpoints = [(broker.id, endpoint) for broker in survey.brokers for endpoint in broker.registered.endpoints]
    for name in dict.fromkeys(endpoint.listener for _, endpoint in endpoints):
        protocols = [(id_, endpoint.security_protocol) for id_, endpoint in endpoints if endpoint.listener == name]
        yield from _of_difference(f"in the security protocol of {name}", protocols)
        guarded = [b for b in survey.asked if b.authorizer and b.registered.endpoint(name) is not None]
        mappings = [(broker.id, broker.principal_mapping(name)) for broker in guarded]
        yield from _of_difference(f"in ssl.principal.mapping.rules of {name}", mappings)
        by_kerberos = [(broker.id, broker.kerberos_mapping(name)) for broker in guarded]
        yield from _of_difference(f"in {KERBEROS_RULES} of {name}", by_kerberos)


def _of_difference(what: str, values: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Under one controller they need to agree: it looks for all of them, and they for it, under one name."""
    found: dict[str, list[int]] = {}
    for broker, value in values:
        found.setdefault(value, []).append(broker)
    if len(found) > 1:
        shown = "; ".join(f"{name}: {listed(ids)}" for name, ids in sorted(found.items()))
        yield f"brokers differ {what} ({shown}): finish the rolling restart that changes it first"
