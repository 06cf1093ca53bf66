"""Which registered brokers can join."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, BrokerProtocol, Endpoint, FeatureRange
from cluster.model.listeners import ListenerNames
from controller.decisions.brokers.admission import why_not_admitted, why_unfit
from tests.controllers.contexts import ids

KAFKA = Broker(BrokerId(1), (Endpoint("host", 9092),), features={"metadata.version": FeatureRange(1, 7)})
AGENT = replace(KAFKA, klamm_version="0.3.0")
EXTERNAL = replace(KAFKA, endpoints=(Endpoint("host", 9092, "EXTERNAL"),))
SASL = replace(KAFKA, endpoints=(Endpoint("host", 9092, "PLAINTEXT", "SASL_SSL"),))
CONTROL_IN_PLAINTEXT = replace(SASL, endpoints=(*SASL.endpoints, Endpoint("host", 9093, "CONTROL", "PLAINTEXT")))


@pytest.mark.rule("D-80", "RQ-30", "FT-2")
@pytest.mark.parametrize(
    ("broker", "protocol", "level", "why"),
    [
        (KAFKA, "klamm", 7, None),
        (AGENT, "klamm", 7, None),
        (KAFKA, "kafka", 7, None),
        (AGENT, "kafka", 7, "runs klamm 0.3.0, and klamm.broker.protocol of the controllers is kafka: one cluster has"),
        (SASL, "kafka", 7, "takes control requests at PLAINTEXT with SASL_SSL only"),
        (SASL, "klamm", 7, None),
        (CONTROL_IN_PLAINTEXT, "kafka", 7, None),
        (EXTERNAL, "klamm", 7, "has no listener CONTROL or PLAINTEXT for control requests, only EXTERNAL"),
        (AGENT, "klamm", 8, "does not support the finalized features metadata.version"),
    ],
)
def test_which_brokers_join(broker: Broker, protocol: BrokerProtocol, level: int, why: str | None) -> None:
    found = why_not_admitted(broker, ListenerNames(), protocol, {"metadata.version": level})
    assert found is None if why is None else (found or "").startswith(why)


def test_a_broker_with_sasl_joins_where_the_controller_has_credentials() -> None:
    levels = {"metadata.version": 7}
    assert why_not_admitted(SASL, ListenerNames(), "kafka", levels, authenticates=True) is None
    assert why_not_admitted(SASL, ListenerNames(), "kafka", levels) == (
        "takes control requests at PLAINTEXT with SASL_SSL only: give the controllers "
        "sasl.mechanism.inter.broker.protocol and its sasl.jaas.config"
    )


@pytest.mark.rule("D-109")
def test_a_registration_with_the_address_of_a_controller_does_not_join() -> None:
    levels = {"metadata.version": 7}
    assert why_not_admitted(KAFKA, ListenerNames(), "kafka", levels, frozenset({"host:9093"})) is None
    two = replace(KAFKA, endpoints=(*KAFKA.endpoints, Endpoint("host", 9093, "CONTROL")))
    assert why_not_admitted(two, ListenerNames(), "kafka", levels, frozenset({"host:9093"})) == (
        "has the address of a controller of klamm as its listener CONTROL, host:9093: "
        "correct its advertised.listeners, or delete the registration if it is no broker"
    )


@pytest.mark.rule("D-91")
@pytest.mark.parametrize(
    ("registered", "refused", "adopted", "why"),
    [
        ((), (), (), None),
        ((), (), (1, 2), None),
        ((1, 2), (), (1, 2), None),
        ((1, 2, 99), (99,), (1, 2), None),
        ((1, 2, 99), (99,), (), None),
        ((1,), (), (1, 2), None),
        ((1, 2), (2,), (1, 2), "would not admit all brokers that were adopted: broker 2 is odd"),
        ((1, 2), (1, 2), (), "would admit none of the registered brokers: broker 1 is odd; broker 2 is odd"),
        ((99,), (99,), (), "would admit none of the registered brokers: broker 99 is odd"),
        (
            (1, 2, 3),
            (1, 2, 3),
            (),
            "would admit none of the registered brokers: broker 1 is odd; broker 2 is odd; broker 3 is odd",
        ),
        (
            (1, 2, 3, 4, 5),
            (1, 2, 3, 4, 5),
            (),
            "would admit none of the registered brokers: broker 1 is odd; broker 2 is odd; broker 3 is odd and 2 more",
        ),
    ],
)
def test_which_candidates_may_govern_the_registered_brokers(
    registered: tuple[int, ...], refused: tuple[int, ...], adopted: tuple[int, ...], why: str | None
) -> None:
    found = why_unfit(ids(*registered), dict.fromkeys(ids(*refused), "is odd"), ids(*adopted))
    assert found == why
