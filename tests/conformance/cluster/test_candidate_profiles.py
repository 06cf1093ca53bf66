"""What a candidate says of itself in its registration, and that anybody may have written it."""

import json
from typing import Any

import msgspec
import pytest

from cluster.config.config import load_config
from cluster.model.broker import ControllerId, Endpoint
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.candidates import CandidateListener, CandidateProfile, decode_profile
from cluster.znodes.checks import why_malformed
from cluster.znodes.registrations import (
    decode_controller_registration,
    encode_controller_registration,
)
from controller.candidate_profile import DECIDING_SETTINGS, candidate_profile
from tests.processes.certificates import make_certificates

ID = ControllerId(901)
PROFILE = CandidateProfile(
    klamm="0.3",
    broker_protocol="kafka",
    protocol_version="3.9",
    inter_broker_listener="SSL",
    control_plane_listener="CONTROL",
    listeners=(CandidateListener("SSL", "SSL", "h", 19092, "required"),),
    has_certificate=True,
    rack="a",
    settings={"num.partitions": "3"},
)


def registration(profile: CandidateProfile | None) -> bytes:
    return encode_controller_registration(ID, [Endpoint("h", 1)], 0, profile)


@pytest.mark.rule("D-113")
@pytest.mark.parametrize("profile", [PROFILE, PROFILE.unfit_because("it would admit none of 3 brokers")])
def test_a_candidate_registers_what_it_is(profile: CandidateProfile) -> None:
    data = registration(profile)
    assert decode_profile(ID, data) == profile
    assert decode_controller_registration(ID, data) == (Endpoint("h", 1),)
    assert why_malformed("/controllers/ids/901", data) is None


@pytest.mark.rule("D-113")
def test_a_candidate_of_an_older_release_says_nothing_of_itself() -> None:
    assert decode_profile(ID, registration(None)) is None
    assert "candidate" not in json.loads(registration(None))


@pytest.mark.rule("D-113")
def test_an_older_release_reads_the_registration_of_a_newer_one() -> None:
    """What it does not know is left out by its decoder, so a later field does not hide the candidate from this one."""
    body = json.loads(registration(PROFILE))
    body["candidate"]["a_later_field"] = {"of": "a later release"}
    assert decode_profile(ID, json.dumps(body).encode()) == PROFILE


@pytest.mark.rule("D-113")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("klamm", "x" * 256),
        ("klamm", "\x1b[2J"),
        ("klamm", "\u202e"),
        ("rack", 7),
        ("unfit", "x" * 1001),
        ("unfit", "a\nb"),
        ("settings", {"k": "x" * 256}),
        ("settings", {f"k{number}": "" for number in range(101)}),
        ("listeners", [{"name": "P", "security_protocol": "P", "host": "h", "port": 70_000}]),
        ("listeners", [{"name": "P", "security_protocol": "P", "host": "h", "port": 1}] * 101),
        ("listeners", {}),
    ],
)
def test_a_registration_beyond_its_bounds_is_malformed_and_still_has_its_address(field: str, value: Any) -> None:
    body = json.loads(registration(PROFILE))
    body["candidate"][field] = value
    data = json.dumps(body).encode()
    with pytest.raises(MalformedZnodeError):
        decode_profile(ID, data)
    assert why_malformed("/controllers/ids/901", data) is not None
    assert decode_controller_registration(ID, data) == (Endpoint("h", 1),)


@pytest.mark.rule("D-113")
def test_the_reason_to_be_unfit_fits_whatever_it_is() -> None:
    profile = PROFILE.unfit_because("\x1b" + "x" * 5000)
    assert decode_profile(ID, registration(profile)) == profile
    found = decode_profile(ID, registration(profile))
    assert found is not None
    assert found.unfit == profile.unfit
    assert (profile.unfit[:2], profile.unfit[-1], len(profile.unfit)) == (" x", "…", 1000)


@pytest.mark.rule("D-113")
def test_the_profile_has_the_effective_settings_of_the_process(tmp_path: Any) -> None:
    files = make_certificates(tmp_path)
    config = load_config(
        None,
        {
            "id": 901,
            "zookeeper": "zk:2181",
            "listen": "127.0.0.1:9701",
            "data": str(tmp_path),
            "settings": {
                "klamm.broker.protocol": "kafka",
                "inter.broker.protocol.version": "2.8",
                "klamm.kafka.listeners": "INSIDE://h:19092,PLAINTEXT://h:19093,USERS://h:19094,BOTH://h:19095",
                "listener.security.protocol.map": "INSIDE:SSL,USERS:SASL_SSL,BOTH:SASL_SSL",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.both.ssl.client.auth": "required",
                "inter.broker.listener.name": "inside",
                "ssl.keystore.location": str(files.node),
                "ssl.truststore.location": str(files.authority),
                "ssl.client.auth": "required",
                "delete.topic.enable": False,
                "default.replication.factor": 3,
                "klamm.kafka.rack": "a",
            },
        },
    )
    endpoints = [listener.endpoint(listener.port) for listener in config.kafka_listeners]
    profile = candidate_profile(config, endpoints)
    assert msgspec.json.decode(msgspec.json.encode(profile), type=CandidateProfile) == profile
    assert (profile.protocol_version, profile.inter_broker_listener, profile.control_plane_listener) == (
        "2.8",
        "INSIDE",
        "CONTROL",
    )
    assert profile.listeners == (
        CandidateListener("INSIDE", "SSL", "h", 19092, "required"),
        CandidateListener("PLAINTEXT", "PLAINTEXT", "h", 19093, "none"),
        CandidateListener("USERS", "SASL_SSL", "h", 19094, "none", mechanisms=("SCRAM-SHA-512",)),
        CandidateListener("BOTH", "SASL_SSL", "h", 19095, "required", mechanisms=("SCRAM-SHA-512",)),
    )
    assert profile.has_certificate
    assert profile.is_grpc_local
    assert profile.rack == "a"
    assert profile.settings.keys() == set(DECIDING_SETTINGS)
    assert profile.settings["delete.topic.enable"] == "false"
    assert profile.settings["default.replication.factor"] == "3"
    elsewhere = config.model_copy(update={"listen": "h:9701"})
    assert not candidate_profile(elsewhere, endpoints).is_grpc_local
