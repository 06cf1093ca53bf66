"""Each cluster as operators set it up is adopted by the commands that are printed, or refused in a sentence."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from adoption.findings import examine
from adoption.survey import Survey, SurveyedCandidate
from cluster.config.config import load_config
from cluster.model.broker import ControllerId
from controller.candidate_profile import candidate_profile
from tests.kafka.adopted import filled_in
from tests.kafka.cluster_shapes import Shape, shapes
from tests.processes.certificates import Certificates, make_certificates

JAAS = """
KafkaServer {
  org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="p";
  org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="p" user_admin="p";
};
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="k" password="p"; };
"""
KEYS = '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
OF_SETTINGS = [shape for shape in shapes() if not shape.needs]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def candidates(survey: Survey, commands: tuple[str, ...], files: Certificates, folder: Path) -> Survey:
    """As they register when the printed commands are run, each on a host of its own."""
    (folder / "jaas.conf").write_text(JAAS)
    (folder / "jaas.conf").chmod(0o600)
    (folder / "keys.json").write_text(KEYS)
    found: dict[ControllerId, SurveyedCandidate] = {}
    placeholders = {
        "KEY-AND-CERTIFICATE.pem": str(files.node),
        "AUTHORITIES.pem": str(files.authority),
        "JAAS.conf": str(folder / "jaas.conf"),
        "SUPER-USERS": "User:broker",
        "file:///KEYS": (folder / "keys.json").as_uri(),
        "AS-AT-BROKERS": "true",
    }
    for number, command in enumerate(commands):
        arguments = filled_in(command, placeholders, folder, f"controller{number}")[1:]
        options = list(zip(arguments[::2], arguments[1::2], strict=True))
        fields: dict[str, Any] = {name[2:].replace("-", "_"): value for name, value in options if name != "--override"}
        settings = dict(value.partition("=")[::2] for name, value in options if name == "--override")
        config = load_config(None, {**fields, "settings": settings})
        advertised = [listener.endpoint(listener.port) for listener in config.kafka_listeners]
        id_ = ControllerId(config.id)
        found[id_] = SurveyedCandidate(id_, config.listen, candidate_profile(config, advertised))
    return replace(survey, candidates=found)


@pytest.mark.rule("D-115", "D-116")
@pytest.mark.parametrize("shape", OF_SETTINGS, ids=lambda shape: shape.name)
def test_the_printed_commands_suit_the_cluster_or_it_is_refused(
    shape: Shape, certificates: Certificates, tmp_path: Path
) -> None:
    survey = shape.survey()
    findings = examine(survey, "zk:2181", "atomic")
    if shape.expect == "refuse":
        assert any(shape.says in refusal for refusal in findings.refusals), findings.refusals
        return
    assert findings.refusals == ()
    assert any(shape.says in note for note in findings.notes) or not shape.says, findings.notes
    if "GSSAPI" in shape.properties.get("sasl.enabled.mechanisms", ""):
        # Its candidates need the extra 'kerberos', and a keytab: tests/end_to_end/test_kafka_kerberos_cluster.py.
        assert all("sasl.mechanism.inter.broker.protocol=GSSAPI" in command for command in findings.commands)
        return
    started = candidates(survey, findings.commands, certificates, tmp_path)
    assert examine(started, "zk:2181", "atomic").refusals == ()
