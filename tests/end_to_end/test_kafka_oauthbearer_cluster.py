"""Brokers of Apache Kafka that authenticate to one another by tokens of an issuer, under klamm.

The token of the controllers lasts for seconds and is replaced in its file, as by the sidecar of an issuer, while topics
are created, and a controller and a broker die.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.model.errors import ErrorCode
from cluster.sasl.clients import ClientCredentials
from tests.end_to_end.test_kafka_sasl_clusters import ALICE, CONTROLLERS, REAUTHENTICATE_MS, SaslCluster, Secured
from tests.processes.certificates import make_certificates
from tests.processes.local_clusters import eventually
from tests.processes.tokens import TokenIssuer

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]
AUDIENCE, ISSUER = "kafka", "https://issuer.example"
LASTS_S: Final = 12
"""A token of the controllers."""
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"


class TokenCluster(SaslCluster):
    """Its brokers verify signatures, as klamm does."""

    replicas = 2

    def __init__(self, folder: Path, zookeeper: str) -> None:
        shape = Secured("3.9.1", "SASL_PLAINTEXT", "OAUTHBEARER", has_authorizer=True)
        super().__init__(shape, folder, zookeeper, make_certificates(folder))
        self.folder, self.keys = folder, folder / "keys.json"
        self._issuer = TokenIssuer(self.keys, AUDIENCE, ISSUER)
        self.of_broker = self.write_token("of-brokers", "broker", 3600)
        self.of_controllers_file = self.write_token("of-controllers", "broker", LASTS_S)

    def write_token(self, name: str, user: str, lasts_s: float) -> Path:
        return self._issuer.write(self.folder / name, user, lasts_s)

    def _tokens(self, own: Path) -> dict[str, Any]:
        return {
            "sasl.oauthbearer.token.endpoint.url": own.as_uri(),
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }

    def login_module(self) -> str:
        return f"{_OAUTH}.OAuthBearerLoginModule required;"

    def of_brokers(self) -> dict[str, Any]:
        own = f"listener.name.{self.shape.protocol.lower()}.oauthbearer.sasl"
        return {
            **super().of_brokers(),
            **self._tokens(self.of_broker),
            f"{own}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{own}.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        }

    def of_controllers(self) -> dict[str, Any]:
        found = {key: value for key, value in super().of_controllers().items() if "callback" not in key}
        del found["java.security.auth.login.config"]
        return {**found, **self._tokens(self.of_controllers_file)}

    def credentials(self, user: str, _password: str | None) -> ClientCredentials:
        return ClientCredentials(self.shape.mechanism, token_file=str(self.write_token(f"of-{user}", user, 600)))


@contextmanager
def replaced_tokens(cluster: TokenCluster) -> Iterator[None]:
    """Replace the controllers' token in good time, as the sidecar of an issuer does."""
    ended = threading.Event()

    def replace() -> None:
        while not ended.wait(LASTS_S / 3):
            cluster.write_token("of-controllers", "broker", LASTS_S)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.rule("D-80", "D-107")
def test_brokers_with_tokens_are_governed_by_controllers_whose_tokens_last_for_seconds(
    tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = TokenCluster(tmp_path, zookeeper)
    # Brokers of 3.9.1 and later read from no URL that is not listed.
    allowed = f"{cluster.keys.as_uri()},{cluster.of_broker.as_uri()}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
    with replaced_tokens(cluster):
        try:
            cluster.start_brokers(2, cluster.of_brokers(), cluster.shape.protocol)
            for id_ in CONTROLLERS:
                cluster.start_candidate(id_, cluster.shape.protocol, **cluster.of_controllers())
            eventually(lambda: cluster.active() in CONTROLLERS, "klamm is the controller")
            eventually(lambda: cluster.obeyed() == {cluster.active()}, "all brokers obey klamm")
            _govern(cluster)
        finally:
            cluster.end()


def _govern(cluster: TokenCluster) -> None:
    log = f"controller-{cluster.active()}"
    failures = cluster.log(log).count("Sending a request to a broker failed")
    # Longer than two tokens last, and many sessions.
    for number in range(10):
        begun = time.monotonic()
        assert cluster.create(f"t-{number}") == 0
        eventually(lambda number=number: cluster.is_whole(f"t-{number}"), "all replicas are in sync")
        time.sleep(max(0.0, 2 * LASTS_S / 10 - (time.monotonic() - begun)))
    assert cluster.log(log).count("Sending a request to a broker failed") == failures
    assert REAUTHENTICATE_MS / 1000 < LASTS_S
    assert cluster.create("of-alice", ALICE) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    first = cluster.active()
    cluster.kill("kafka-2")
    eventually(lambda: cluster.is_whole("t-0", 1) and not cluster.leads("t-0", 2), "broker 2 is out")
    cluster.restart(2)
    eventually(lambda: cluster.is_whole("t-0"), "broker 2 is in sync again")
    cluster.kill(f"controller-{first}")
    eventually(lambda: cluster.active() in set(CONTROLLERS) - {first}, "another controller is active")
    eventually(lambda: cluster.obeyed() == {cluster.active()}, "all brokers obey it")
    cluster.stop("kafka-2")
    eventually(lambda: cluster.is_whole("t-0", 1) and not cluster.leads("t-0", 2), "broker 2 has left")
    assert "Proceeding to do an unclean shutdown" not in cluster.log("kafka-2")
