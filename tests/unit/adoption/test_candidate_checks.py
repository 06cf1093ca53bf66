"""A candidate that does not suit the brokers is refused, with the line to add to its command."""

from typing import Any

import pytest
from msgspec.structs import replace

from adoption.findings import examine
from adoption.survey import BrokerAnswers, Survey, SurveyedBroker, SurveyedCandidate
from cluster.model.broker import Broker, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.security.kerberos_names import SETTING as KERBEROS_RULES
from cluster.znodes.candidates import CandidateListener, CandidateProfile

SSL = "SSL"
LISTENERS = (
    CandidateListener("INTERNAL", SSL, "c1", 19092, "required"),
    CandidateListener("CLIENTS", SSL, "c1", 19093, "none"),
)
FIT = CandidateProfile(
    klamm="0.3",
    broker_protocol="kafka",
    protocol_version="2.8",
    inter_broker_listener="INTERNAL",
    control_plane_listener="CONTROL",
    listeners=LISTENERS,
    has_certificate=True,
    is_grpc_local=True,
    registers_as_broker=True,
    rack="b",
    settings={"delete.topic.enable": "false", "num.partitions": "12"},
)


def brokers(**configs: str) -> tuple[SurveyedBroker, ...]:
    settings = {
        "inter.broker.protocol.version": "2.8-IV1",
        "inter.broker.listener.name": "internal",
        "listener.name.internal.ssl.client.auth": "required",
        "ssl.client.auth": "none",
        "delete.topic.enable": "false",
        "num.partitions": "12",
        **{key.replace("_", "."): value for key, value in configs.items()},
    }
    return tuple(
        SurveyedBroker(
            Broker(
                BrokerId(number),
                (Endpoint(f"h{number}", 9092, "INTERNAL", SSL), Endpoint(f"h{number}", 9093, "CLIENTS", SSL)),
                "a",
            ),
            BrokerAnswers({4: 5, 5: 3}, False, settings, ControllerId(1)),
        )
        for number in (1, 2)
    )


def survey(profile: CandidateProfile | None = FIT, *, id_: int = 901, malformed: str = "", **rest: Any) -> Survey:
    candidate = SurveyedCandidate(ControllerId(id_), "c1:9701", profile, malformed)
    fields: dict[str, Any] = {"brokers": brokers(), "candidates": {candidate.id: candidate}, **rest}
    return Survey("id", ControllerId(1), ControllerEpoch(7), **fields)


def refusals(found: Survey) -> tuple[str, ...]:
    return examine(found, "zk:2181", "atomic").refusals


@pytest.mark.rule("D-116")
def test_a_candidate_like_the_brokers_is_fit() -> None:
    assert refusals(survey()) == ()


def with_listeners(*listeners: CandidateListener) -> CandidateProfile:
    return replace(FIT, listeners=listeners)


@pytest.mark.rule("D-116")
@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (None, "does not say what it is"),
        (replace(FIT, broker_protocol="klamm"), "add --override klamm.broker.protocol=kafka"),
        (replace(FIT, unfit="would admit 0 of 2 brokers"), "takes no part in elections: it would admit 0 of 2 brokers"),
        (
            replace(FIT, protocol_version="3.9"),
            "has inter.broker.protocol.version 3.9, not the 2.8-IV1 of brokers 1, 2: add --override "
            "inter.broker.protocol.version=2.8-IV1",
        ),
        (replace(FIT, protocol_version="2.8-IV0"), "add --override inter.broker.protocol.version=2.8-IV1"),
        (replace(FIT, protocol_version="9.9"), "add --override inter.broker.protocol.version=2.8-IV1"),
        (replace(FIT, inter_broker_listener="PLAINTEXT"), "add --override inter.broker.listener.name=INTERNAL"),
        (
            with_listeners(LISTENERS[0]),
            "has no Kafka listener CLIENTS, under which brokers 1, 2 and their clients look for the controller: add "
            "--override klamm.kafka.listeners=INTERNAL://c1:19092,CLIENTS://HOST:PORT --override "
            "listener.security.protocol.map=INTERNAL:SSL,CLIENTS:SSL",
        ),
        (
            with_listeners(replace(LISTENERS[0], security_protocol="PLAINTEXT"), LISTENERS[1]),
            "has PLAINTEXT at its Kafka listener INTERNAL, brokers 1, 2 have SSL: add --override listener.security",
        ),
        (
            with_listeners(replace(LISTENERS[0], client_auth="requested"), LISTENERS[1]),
            "add --override listener.name.internal.ssl.client.auth=required",
        ),
        (
            with_listeners(LISTENERS[0], replace(LISTENERS[1], client_auth="required")),
            "add --override listener.name.clients.ssl.client.auth=none",
        ),
        (
            with_listeners(replace(LISTENERS[0], host="127.0.0.1"), LISTENERS[1]),
            "is at 127.0.0.1:19092, by which brokers 1, 2 reach nobody but their own host",
        ),
        (
            with_listeners(replace(LISTENERS[0], host="h2", port=9092), LISTENERS[1]),
            "is at h2:9092, where broker 2 is",
        ),
        (replace(FIT, has_certificate=False), "add --override ssl.keystore.location="),
        (replace(FIT, is_grpc_local=False), "start it with --listen 127.0.0.1:9701"),
        (
            with_listeners(*LISTENERS, CandidateListener("PLAINTEXT", "PLAINTEXT", "c1", 19094)),
            "has the Kafka listener PLAINTEXT, which no broker has, and these brokers demand certificates or SASL, or "
            "authorise: leave it out of --override klamm.kafka.listeners=INTERNAL://c1:19092,CLIENTS://c1:19093",
        ),
        (replace(FIT, registers_as_broker=False), "add --override klamm.kafka.register.as.broker=true"),
        (replace(FIT, rack=None), "add --override klamm.kafka.rack=a"),
        (
            replace(FIT, settings={**FIT.settings, "delete.topic.enable": "true"}),
            "has delete.topic.enable true, the brokers false: add --override delete.topic.enable=false",
        ),
    ],
)
def test_what_does_not_suit_is_named_with_the_line_to_add(profile: CandidateProfile | None, said: str) -> None:
    (refusal,) = refusals(survey(profile))
    assert refusal.startswith("candidate 901 ")
    assert said in refusal


@pytest.mark.rule("D-116")
def test_the_id_of_a_broker_is_nobody_elses() -> None:
    assert refusals(survey(id_=2)) == ("candidate 2 has the id of a broker: start it with another --id",)
    (refusal,) = refusals(survey(id_=4, absent={BrokerId(4): 1200}))
    assert "has the id of an unregistered broker with 1,200 replicas" in refusal
    # Brokers place replicas on a controller that they take for a broker; the governing one replaces them.
    governing = replace(survey(id_=4, absent={BrokerId(4): 1}), controller=ControllerId(4))
    assert refusals(governing) == ()


@pytest.mark.rule("D-113", "D-116")
def test_a_registration_that_cannot_be_read_is_no_candidates() -> None:
    (refusal,) = refusals(survey(None, malformed="has a malformed registration (/controllers/ids/901): x"))
    assert refusal == "candidate 901 has a malformed registration (/controllers/ids/901): x"


@pytest.mark.rule("D-116")
def test_the_control_plane_has_the_name_that_brokers_give_it() -> None:
    of_brokers = brokers(control_plane_listener_name="clients")
    (refusal,) = refusals(survey(brokers=of_brokers))
    assert "takes CONTROL for the listener of brokers for controllers, which is CLIENTS: add" in refusal
    named = replace(FIT, control_plane_listener="CLIENTS")
    assert refusals(survey(named, brokers=of_brokers)) == ()


@pytest.mark.rule("D-116")
def test_a_listener_called_control_that_is_no_control_plane_is_not_taken_for_one() -> None:
    endpoints = (Endpoint("h1", 9092, "INTERNAL", SSL), Endpoint("h1", 9093, "CONTROL", SSL))
    found = tuple(replace(b, registered=replace(b.registered, endpoints=endpoints)) for b in brokers())
    listeners = (LISTENERS[0], replace(LISTENERS[1], name="CONTROL"))
    (refusal,) = refusals(survey(with_listeners(*listeners), brokers=found))
    assert "add --override control.plane.listener.name=KLAMM-CONTROL" in refusal


@pytest.mark.rule("D-115")
def test_a_missing_right_is_named_and_nothing_untrue_beside_it() -> None:
    why = "the right DescribeConfigs is missing"
    silent = BrokerAnswers({4: 7, 5: 4}, True, {}, ControllerId(1), no_configs=why)
    (refusal, _) = refusals(survey(brokers=tuple(replace(b, answers=silent) for b in brokers()), candidates={}))
    assert refusal.startswith(f"broker 1 does not tell its settings: {why}: give --command-config the identity of")
    denied = replace(silent, has_authorizer=False)
    (refusal, _) = refusals(survey(brokers=tuple(replace(b, answers=denied) for b in brokers()), candidates={}))
    assert refusal == "broker 1 does not tell its settings: the right DescribeConfigs is missing"


ACLS = "kafka.security.authorizer.AclAuthorizer"
GUARDED = replace(FIT, authorises=True)


@pytest.mark.rule("D-116")
@pytest.mark.parametrize(
    ("profile", "configs", "said"),
    [
        (GUARDED, {"authorizer_class_name": ACLS}, ""),
        (GUARDED, {"authorizer_class_name": "kafka.security.auth.SimpleAclAuthorizer"}, ""),
        (replace(FIT, refuses_clients=True), {"authorizer_class_name": "org.example.Ranger"}, ""),
        (replace(FIT, refuses_clients=True, listeners=LISTENERS[:1]), {"authorizer_class_name": "org.example.Opa"}, ""),
        (FIT, {"authorizer_class_name": ACLS}, f"add --override authorizer.class.name={ACLS} --override super.users="),
        (GUARDED, {"authorizer_class_name": "org.example.Ranger"}, "add --override klamm.kafka.controller.only=true"),
        (GUARDED, {}, "authorises, and these brokers have no authorizer"),
        (replace(FIT, refuses_clients=True), {}, "authorises, and these brokers have no authorizer"),
        (
            replace(GUARDED, allows_unlisted=True),
            {"authorizer_class_name": ACLS},
            "has allow.everyone.if.no.acl.found=true, which no broker has",
        ),
        (
            replace(GUARDED, allows_unlisted=True),
            {"authorizer_class_name": ACLS, "allow_everyone_if_no_acl_found": "true"},
            "",
        ),
        (
            GUARDED,
            {"authorizer_class_name": ACLS, "ssl_principal_mapping_rules": "RULE:^CN=(.*)$/$1/,DEFAULT"},
            "add --override 'listener.name.internal.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/,DEFAULT'",
        ),
        (replace(GUARDED, is_grpc_local=False), {"authorizer_class_name": ACLS}, "or with TLS there"),
    ],
)
def test_a_candidate_lets_nobody_do_what_the_authorizer_of_the_brokers_forbids(
    profile: CandidateProfile, configs: dict[str, str], said: str
) -> None:
    found = refusals(survey(profile, brokers=brokers(**configs)))
    assert bool(found) == bool(said), found
    assert said in " ".join(found)


SASL = "SASL_SSL"
USERS = replace(LISTENERS[0], security_protocol=SASL, client_auth="none", mechanisms=("SCRAM-SHA-512",))
BY_USERS = replace(FIT, listeners=(USERS,), has_certificate=False)


def with_sasl(*, release: int = 5, protocol: str = SASL, **configs: str) -> Survey:
    """Brokers of 2.8 with one listener, at which users authenticate."""
    endpoint, settings = Endpoint("h1", 9092, "INTERNAL", protocol), dict(brokers(**configs)[0].answers.configs)  # type: ignore[union-attr]
    del settings["listener.name.internal.ssl.client.auth"]
    settings |= {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}
    settings |= {key.replace("_", "."): value for key, value in configs.items()}
    answers = BrokerAnswers({4: release, 5: 3}, False, settings, ControllerId(1))
    return survey(BY_USERS, brokers=(SurveyedBroker(Broker(BrokerId(1), (endpoint,), "a"), answers),))


def of(found: Survey, profile: CandidateProfile) -> Survey:
    return replace(found, candidates={id_: replace(c, profile=profile) for id_, c in found.candidates.items()})


@pytest.mark.rule("D-116")
@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (replace(BY_USERS, is_grpc_local=False), "start it with --listen 127.0.0.1:9701"),
        (
            replace(BY_USERS, listeners=(replace(USERS, mechanisms=("PLAIN", "SCRAM-SHA-512")),)),
            "has the SASL mechanisms PLAIN at its Kafka listener INTERNAL, which no broker has there: add --override "
            "listener.name.internal.sasl.enabled.mechanisms=SCRAM-SHA-512",
        ),
        (
            replace(BY_USERS, listeners=(USERS, CandidateListener("SSL", SSL, "c1", 19094, "required"))),
            "has the Kafka listener SSL, which no broker has",
        ),
    ],
)
def test_where_users_authenticate_no_candidate_lets_others_in(profile: CandidateProfile, said: str) -> None:
    assert refusals(with_sasl()) == ()
    (refusal,) = refusals(of(with_sasl(), profile))
    assert said in refusal
    # Neither does the command that is printed.
    commands = examine(with_sasl(), "zk:2181", "atomic").commands
    assert all("--listen 127.0.0.1:97" in command for command in commands)


@pytest.mark.rule("D-116")
def test_a_mechanism_between_brokers_is_in_the_commands_only_where_brokers_use_it() -> None:
    """Brokers with certificates tell the default of the setting, GSSAPI, though clients log in otherwise."""
    found = brokers(
        sasl_mechanism_inter_broker_protocol="GSSAPI",
        listener_name_clients_sasl_enabled_mechanisms="PLAIN",
    )
    clients = Endpoint("h1", 9093, "CLIENTS", SASL)
    found = tuple(
        replace(one, registered=replace(one.registered, endpoints=(one.registered.endpoints[0], clients)))
        for one in found
    )
    (one, _) = examine(survey(brokers=found), "zk:2181", "atomic").commands
    assert "--override sasl.enabled.mechanisms=PLAIN" in one
    assert "sasl.mechanism.inter.broker.protocol" not in one
    (one, _) = examine(with_sasl(), "zk:2181", "atomic").commands
    assert "--override sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512" in one


@pytest.mark.rule("D-116")
@pytest.mark.parametrize("authorizer", [ACLS, "org.example.Ranger"])
def test_where_passwords_go_without_tls_the_commands_of_klamm_have_certificates_if_there_are_rights(
    authorizer: str,
) -> None:
    """Without one they would all come as ANONYMOUS, and be refused: at such brokers nobody has that name."""
    plain = {"protocol": "SASL_PLAINTEXT"}
    (one, _) = examine(with_sasl(**plain), "zk:2181", "atomic").commands
    assert "GRPC" not in one
    assert "--listen 127.0.0.1:9701" in one
    found = examine(with_sasl(**plain, authorizer_class_name=authorizer), "zk:2181", "atomic")
    for needed in (
        "--listen HOST:9701",
        "GRPC:SSL,GRPC_CONTROL:SSL",
        "ssl.keystore.location=KEY-AND-CERTIFICATE.pem",
        "ssl.truststore.location=AUTHORITIES.pem",
        "listener.name.grpc.ssl.client.auth=required",
    ):
        assert needed in found.commands[0]
    assert any("klamm's own commands need a certificate" in note and "klamm certs" in note for note in found.notes)


@pytest.mark.rule("D-116")
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_names_in_certificates_count_as_little_as_at_the_brokers(protocol: str) -> None:
    """Or the controllers could not reach brokers whose certificates have other names."""
    key = "--override ssl.endpoint.identification.algorithm="
    (one, _) = examine(with_sasl(protocol=protocol), "zk:2181", "atomic").commands
    assert key in one
    checked = {"protocol": protocol, "ssl_endpoint_identification_algorithm": "https"}
    (one, _) = examine(with_sasl(**checked), "zk:2181", "atomic").commands
    assert key not in one


@pytest.mark.rule("D-116")
def test_users_show_certificates_where_the_listener_of_brokers_demands_them() -> None:
    demand = {"listener_name_internal_ssl_client_auth": "required"}
    (refusal, lacks) = refusals(with_sasl(**demand))
    assert "add --override listener.name.internal.ssl.client.auth=required" in refusal
    assert "has no certificate to show" in lacks
    commands = examine(with_sasl(**demand), "zk:2181", "atomic").commands
    assert all("listener.name.internal.ssl.client.auth=required" in command for command in commands)
    # The setting of all listeners is not about users, and brokers before 2.8 ask users for none at all.
    assert refusals(with_sasl(ssl_client_auth="required")) == refusals(with_sasl(release=4, **demand)) == ()


@pytest.mark.rule("D-116")
def test_a_listener_with_authorities_of_its_own_has_them_under_klamm() -> None:
    """Who certifies clients at one listener could otherwise certify a broker at another."""
    own = brokers(listener_name_clients_ssl_truststore_location="/clients.p12")
    (one, two) = examine(survey(brokers=own), "zk:2181", "atomic").commands
    key = "--override listener.name.clients.ssl.truststore.location=AUTHORITIES-OF-CLIENTS.pem"
    assert key in one
    assert key in two
    (one, _) = examine(survey(), "zk:2181", "atomic").commands
    assert "AUTHORITIES-OF" not in one


@pytest.mark.rule("D-116")
def test_principals_become_users_by_the_rules_of_the_brokers() -> None:
    """Otherwise a client would have another one's rights."""
    rules = "RULE:[1:$1@$0](.*@OTHER)s/@.*/-of-other/,DEFAULT"
    kerberos = {
        "sasl_enabled_mechanisms": "GSSAPI",
        "sasl_mechanism_inter_broker_protocol": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_principal_to_local_rules": rules,
    }
    guarded = {**kerberos, "authorizer_class_name": ACLS}
    by_default = replace(USERS, mechanisms=("GSSAPI",))
    (one, two) = examine(with_sasl(**guarded), "zk:2181", "atomic").commands
    for command in (one, two):
        assert f"--override '{KERBEROS_RULES}={rules}'" in command
        assert "--override sasl.kerberos.service.name=kafka" in command
        assert "--override sasl.mechanism.inter.broker.protocol=GSSAPI" in command
        assert "--override java.security.auth.login.config=JAAS.conf" in command
    profile = replace(BY_USERS, listeners=(by_default,), authorises=True)
    (refusal,) = refusals(of(with_sasl(**guarded), profile))
    assert f"add --override 'listener.name.internal.{KERBEROS_RULES}={rules}'" in refusal
    same = replace(profile, listeners=(replace(by_default, kerberos_mapping=rules),))
    assert refusals(of(with_sasl(**guarded), same)) == ()
    # Without an authorizer nobody has rights by a name.
    assert refusals(of(with_sasl(**kerberos), replace(profile, authorises=False))) == ()
