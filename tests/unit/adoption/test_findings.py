"""What `klamm adopt` says of a cluster: what forbids adoption, what is good to know, what changes, what to run."""

import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from adoption.findings import Findings, examine
from adoption.handover import Handover
from adoption.refusals import releases_of
from adoption.survey import BrokerAnswers, Survey, SurveyedBroker
from cluster.model.broker import NO_CONTROLLER, Broker, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.security.acls import ACL_AUTHORIZER
from cluster.znodes.adoption import Adoption

LEADER_AND_ISR, STOP_REPLICA = 4, 5
NEWEST = {LEADER_AND_ISR: 7, STOP_REPLICA: 4}


def broker(
    number: int,
    *,
    versions: dict[int, int] | None = None,
    protocol: str = "3.9-IV0",
    rack: str | None = None,
    security: str = "PLAINTEXT",
    has_authorizer: bool = False,
    klamm: str = "",
    **configs: str,
) -> SurveyedBroker:
    registered = Broker(BrokerId(number), (Endpoint(f"host{number}", 9092, "PLAINTEXT", security),), rack)
    settings = {"inter.broker.protocol.version": protocol}
    settings |= {key.replace("_", "."): value for key, value in configs.items()}
    answers = BrokerAnswers(NEWEST if versions is None else versions, has_authorizer, settings, ControllerId(1))
    return SurveyedBroker(replace(registered, klamm_version=klamm), answers)


def denying(found: SurveyedBroker) -> SurveyedBroker:
    """The same, whose authorizer does not let this client control it."""
    assert found.answers is not None
    return replace(found, answers=replace(found.answers, lets_control=False))


def survey(*brokers: SurveyedBroker, **rest: Any) -> Survey:
    return Survey("id", ControllerId(1), ControllerEpoch(7), brokers, **rest)


def refusals(found: Survey) -> list[str]:
    return list(examine(found, "zk:2181", "atomic").refusals)


@pytest.mark.rule("AO-1")
@pytest.mark.parametrize("protocol", ["2.4-IV1", "2.6-IV0", "2.8", "3.9-IV0"])
def test_a_plain_cluster_can_be_adopted(protocol: str) -> None:
    assert refusals(survey(broker(1, protocol=protocol), broker(2, protocol=protocol))) == []


@pytest.mark.rule("AO-1")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (survey(), "no broker is registered"),
        (survey(broker(1), is_migrating=True), "a migration to KRaft has begun"),
        (
            survey(
                broker(1, security="SASL_PLAINTEXT", sasl_mechanism_inter_broker_protocol="AWS_MSK_IAM"),
            ),
            "broker 1 authenticates to other brokers by AWS_MSK_IAM",
        ),
        (
            survey(
                broker(
                    1,
                    security="SASL_PLAINTEXT",
                    sasl_mechanism_inter_broker_protocol="PLAIN",
                    plain_sasl_server_callback_handler_class="com.example.Ldap",
                )
            ),
            "broker 1 has plain.sasl.server.callback.handler.class=com.example.Ldap, which klamm cannot ask",
        ),
        (
            survey(broker(1, has_authorizer=True), broker(2)),
            "brokers differ in authorizer.class.name (none: 2; unknown: 1)",
        ),
        (
            survey(broker(1, authorizer_class_name="A", principal_builder_class="com.example.B")),
            "broker 1 has principal.builder.class=com.example.B, which klamm cannot ask who a client is",
        ),
        (
            survey(
                broker(1, authorizer_class_name="A", listener_name_plaintext_principal_builder_class="com.example.B")
            ),
            "broker 1 has listener.name.plaintext.principal.builder.class=com.example.B, which klamm cannot ask",
        ),
        (
            survey(broker(1, authorizer_class_name="A", ssl_principal_mapping_rules="RULE:^CN=(")),
            "broker 1 has ssl.principal.mapping.rules that klamm does not understand",
        ),
        (
            survey(
                broker(
                    1,
                    security="SASL_PLAINTEXT",
                    authorizer_class_name="A",
                    sasl_kerberos_principal_to_local_rules="RULE:[1:$2]",
                )
            ),
            "broker 1 has sasl.kerberos.principal.to.local.rules that klamm does not understand: 'RULE:[1:$2]': $2 is",
        ),
        (
            survey(
                broker(1, authorizer_class_name="A", sasl_kerberos_principal_to_local_rules="RULE:[1:$1],DEFAULT"),
                broker(2, authorizer_class_name="A"),
            ),
            "brokers differ in sasl.kerberos.principal.to.local.rules of PLAINTEXT (DEFAULT: 2; RULE:[1:$1],DEFAUL",
        ),
        (
            survey(broker(1, authorizer_class_name="A", authorizer_zookeeper_url="other:2181")),
            "broker 1 has authorizer.zookeeper.url: its access control lists are in another ZooKeeper",
        ),
        (
            survey(denying(broker(1, authorizer_class_name="A"))),
            "broker 1 does not let this client send what controllers",
        ),
        (
            survey(broker(1), not_readable=("/config/users/ann",)),
            "the ACL of /config/users/ann does not let this identity read",
        ),
        (survey(broker(1, zookeeper_metadata_migration_enable="true")), "broker 1 has zookeeper.metadata.migration"),
        (survey(broker(1, protocol="2.3-IV1")), "klamm governs 2.4 to 3.9"),
        (survey(broker(1, protocol="")), "klamm governs 2.4 to 3.9"),
        (survey(broker(1, versions={LEADER_AND_ISR: 3})), "is of before 2.4"),
        (survey(broker(1, klamm="1.0")), "broker 1 runs klamm 1.0"),
        (
            survey(SurveyedBroker(broker(3).registered, None, "no connection")),
            "broker 3 cannot be asked: no connection",
        ),
    ],
)
def test_what_forbids_adoption_is_named(found: Survey, said: str) -> None:
    (refusal,) = refusals(found)
    assert said in refusal


@pytest.mark.rule("AO-2")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            survey(broker(1), broker(2, protocol="3.6-IV2")),
            "differ in inter.broker.protocol.version (3.6-IV2, 3.9-IV0)",
        ),
        (survey(broker(1), broker(2, rack="a")), "some brokers have a rack"),
        (
            survey(broker(1), absent={BrokerId(4): 1200, BrokerId(7): 34}),
            "1,234 replicas are assigned to brokers that are not registered: 4, 7;",
        ),
        (survey(broker(1), deleting=("t", "u")), "topics are being deleted, which klamm will continue: t, u"),
        (survey(broker(1), reassigning=tuple("abcdefg")), "a, b, c, d, e and 2 more"),
        (survey(broker(1), malformed={"/brokers/topics/t": "not JSON"}), "/brokers/topics/t is malformed: not JSON"),
        (survey(broker(1, zookeeper_set_acl="true")), "brokers set ACLs in ZooKeeper"),
        (survey(broker(1), adoption=Adoption("atomic", "me", 0)), "adopted already, in mode atomic, by me"),
        (survey(broker(2)), "so no leaders are elected: /controller names 1, which does not run"),
        (replace(survey(broker(2)), controller=NO_CONTROLLER), "there is no /controller"),
    ],
)
def test_what_is_good_to_know_before_is_no_refusal(found: Survey, said: str) -> None:
    findings = examine(found, "zk:2181", "atomic")
    assert findings.refusals == ()
    assert any(said in note for note in findings.notes), findings.notes


@pytest.mark.rule("AO-2")
def test_the_metrics_that_go_to_0_and_the_role_are_among_the_changes() -> None:
    changes = "\n".join(examine(survey(broker(1)), "zk:2181", "atomic").changes)
    assert "broker 1, epoch 7, is replaced by a controller of klamm with epoch 8" in changes
    assert "ActiveControllerCount" in changes
    nobody = examine(survey(broker(2)), "zk:2181", "atomic").changes
    assert nobody[0].startswith("the active controller: nobody, epoch 7, is replaced")
    assert "a broker becomes the controller" in changes
    assert "register.as.broker" not in changes
    assert "nobody elects leaders" in "\n".join(examine(survey(broker(1)), "zk:2181", "persistent").changes)
    assert "register.as.broker" in "\n".join(examine(survey(broker(1, protocol="2.8-IV1")), "z", "atomic").changes)


@pytest.mark.rule("AO-2")
def test_the_commands_have_free_ids_and_the_settings_of_the_brokers() -> None:
    found = survey(broker(901, protocol="2.8-IV1", rack="a"), broker(2, protocol="3.9-IV0", rack="b"))
    first, second = examine(found, "zk1:2181/kafka", "atomic").commands
    assert "klamm controller" in first
    for text in (
        "--id 902",
        "--zookeeper zk1:2181/kafka",
        "klamm.broker.protocol=kafka",
        "inter.broker.protocol.version=2.8-IV1",
        "klamm.kafka.listeners=PLAINTEXT://HOST:19092",
        "klamm.kafka.rack=a",
        "klamm.kafka.register.as.broker=true",
    ):
        assert text in first
    assert "--id 903" in second
    assert "klamm.kafka.rack=b" in second


@pytest.mark.rule("AO-2")
def test_what_a_broker_says_is_one_word_to_the_shell_whatever_it_is() -> None:
    """Only the placeholder itself stands in quotes that an operator writes into."""
    rack = "x'; touch taken; '=SUPER-USERS"
    found = survey(broker(1, rack=rack, authorizer_class_name=ACL_AUTHORIZER))
    command = examine(found, "zk:2181", "atomic").commands[0]
    assert f"klamm.kafka.rack={rack}" in shlex.split(command)
    assert "--override 'super.users=SUPER-USERS'" in command


@pytest.mark.rule("AO-2")
def test_the_commands_have_the_listeners_and_the_tls_of_the_brokers() -> None:
    of_tls = broker(1, ssl_client_auth="required", inter_broker_listener_name="INSIDE")
    endpoints = (Endpoint("h", 9092, "INSIDE", "SSL"), Endpoint("h", 9093, "PLAINTEXT", "PLAINTEXT"))
    command = examine(
        survey(replace(of_tls, registered=replace(of_tls.registered, endpoints=endpoints))), "zk:2181", "atomic"
    ).commands[0]
    for text in (
        "klamm.kafka.listeners=INSIDE://HOST:19092,PLAINTEXT://HOST:19093",
        "listener.security.protocol.map=INSIDE:SSL,PLAINTEXT:PLAINTEXT,GRPC:PLAINTEXT,GRPC_CONTROL:PLAINTEXT,METRICS:SSL",
        "inter.broker.listener.name=INSIDE",
        "ssl.keystore.location=KEY-AND-CERTIFICATE.pem",
        "ssl.truststore.location=AUTHORITIES.pem",
        "ssl.client.auth=required",
        "listener.name.metrics.ssl.client.auth=none",
    ):
        assert text in command
    plain = examine(survey(broker(1, ssl_client_auth="required")), "zk:2181", "atomic").commands[0]
    assert "ssl." not in plain
    assert "listener.security" not in plain


@pytest.mark.rule("AO-2")
def test_metrics_are_protected_where_brokers_with_tls_ask_who_clients_are() -> None:
    def found(**settings: str) -> Findings:
        of_tls = broker(1, **settings)
        endpoints = (Endpoint("h", 9092, "SSL", "SSL"),)
        return examine(
            survey(replace(of_tls, registered=replace(of_tls.registered, endpoints=endpoints))), "zk:2181", "atomic"
        )

    secured = found(ssl_client_auth="required", inter_broker_listener_name="SSL")
    assert "METRICS:SSL" in secured.commands[0]
    assert "scheme: https\n  tls_config:\n    ca_file: AUTHORITIES.pem" in secured.scrape_job
    authorised = found(
        inter_broker_listener_name="SSL", authorizer_class_name="kafka.security.authorizer.AclAuthorizer"
    )
    assert "GRPC:SSL,GRPC_CONTROL:SSL,METRICS:SSL" in authorised.commands[0]
    assert "metrics.ssl.client.auth" not in authorised.commands[0]
    encrypted = found(inter_broker_listener_name="SSL")
    assert "METRICS" not in encrypted.commands[0]
    assert "https" not in encrypted.scrape_job
    assert "targets: [HOST:7701, HOST:7702]" in encrypted.scrape_job


@pytest.mark.parametrize(
    ("versions", "release"),
    [
        ({LEADER_AND_ISR: 3}, "before 2.4"),
        ({LEADER_AND_ISR: 4, STOP_REPLICA: 2}, "2.4 to 2.5"),
        ({LEADER_AND_ISR: 4, STOP_REPLICA: 3}, "2.6 to 2.7"),
        ({LEADER_AND_ISR: 5, STOP_REPLICA: 3}, "2.8 to 3.1"),
        ({LEADER_AND_ISR: 6, STOP_REPLICA: 3}, "3.2 to 3.3"),
        ({LEADER_AND_ISR: 7, STOP_REPLICA: 4}, "3.4 to 3.9"),
        ({LEADER_AND_ISR: 8, STOP_REPLICA: 5}, "after 3.9"),
        ({}, "before 2.4"),
    ],
)
def test_the_release_is_known_by_the_control_requests_that_a_broker_takes(
    versions: dict[int, int], release: str
) -> None:
    assert releases_of(broker(1, versions=versions)) == release


@pytest.mark.rule("AO-3")
def test_a_handover_is_complete_when_every_broker_obeys_the_active_controller() -> None:
    nine = ControllerId(901)
    assert Handover(nine, True, {1: nine, 2: nine}).is_complete
    assert not Handover(nine, True, {1: nine, 2: ControllerId(1)}).is_complete
    assert not Handover(nine, True, {1: nine, 2: None}).is_complete
    assert not Handover(nine, True, {}).is_complete
    assert not Handover(ControllerId(-1), False, {1: ControllerId(-1)}).is_complete
