"""Which registered brokers can join."""

import pytest
from msgspec.structs import replace

from cluster.broker import Broker, BrokerId, BrokerProtocol, Endpoint, FeatureRange
from cluster.listeners import ListenerNames
from controller.decisions.brokers.admission import why_not_admitted

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
