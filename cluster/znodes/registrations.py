"""`/brokers/ids/<id>` and `/controllers/ids/<id>`: registrations of live processes and their addresses."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cluster.model import bounds
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint, FeatureRange
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.bodies import Port, decode, require
from cluster.znodes.candidates import CandidateProfile, profile_field
from cluster.znodes.paths import broker_path, controller_registration_path


class _Registration(Struct):
    version: int
    host: str | None = None
    port: Port | None = None
    endpoints: list[str] | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    features: dict[str, FeatureRange] | None = None
    has_damaged_replicas: bool = False
    klamm: str = ""


_registration_decoder = msgspec.json.Decoder(_Registration)


def encode_broker(broker: Broker, now_ms: int, version: int = 5) -> bytes:
    """Encode a registration of version 2, 4 or 5; fields of later versions are omitted."""
    return msgspec.json.encode(_registration_body(broker, now_ms, version))


def _registration_body(broker: Broker, now_ms: int, version: int) -> dict[str, Any]:
    plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    body: dict[str, Any] = {
        "version": version,
        "host": plaintext.host if plaintext else None,
        "port": plaintext.port if plaintext else -1,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{e.listener}://{e.address}" for e in broker.endpoints],
    }
    if version >= 3 and broker.rack is not None:
        body["rack"] = broker.rack
    if version >= 4:
        body["listener_security_protocol_map"] = {e.listener: e.security_protocol for e in broker.endpoints}
    if version >= 5:
        body["features"] = broker.features
    # Not Kafka keys; its readers ignore them.
    if broker.has_damaged_replicas:
        body["has_damaged_replicas"] = True
    if broker.klamm_version:
        body["klamm"] = broker.klamm_version
    return body


def decode_broker(broker: BrokerId, data: bytes) -> Broker:
    """Decode a registration of version 1 to 5; fields of later versions are ignored (R1.6)."""
    path = broker_path(broker)
    body = decode(_registration_decoder, path, data)
    if body.version < 1:
        raise MalformedZnodeError(path, data, f"version {body.version} is below 1")
    protocols = (body.listener_security_protocol_map or {}) if body.version >= 4 else {}
    if body.version == 1:
        endpoints: tuple[Endpoint, ...] = (_host_and_port(path, data, body),)
    elif body.endpoints is None:
        raise MalformedZnodeError(path, data, "endpoints are missing")
    else:
        endpoints = tuple(_endpoint(path, data, text, protocols) for text in body.endpoints)
    _require_endpoints(path, data, endpoints)
    if body.rack is not None:
        require(path, data, bounds.TEXT, body.rack)
    require(path, data, bounds.TEXT, body.klamm)
    for feature, levels in (body.features or {}).items():
        require(path, data, bounds.TEXT, feature)
        require(path, data, bounds.FEATURE_LEVEL, levels.min_version, levels.max_version)
    listeners = [e.listener for e in endpoints]
    if len(set(listeners)) != len(listeners):
        raise MalformedZnodeError(path, data, "two endpoints have the same listener name")
    return Broker(
        id=broker,
        endpoints=endpoints,
        rack=body.rack if body.version >= 3 else None,
        features=(body.features or {}) if body.version >= 5 else {},
        has_damaged_replicas=body.has_damaged_replicas,
        klamm_version=body.klamm,
    )


def _host_and_port(path: str, data: bytes, body: _Registration) -> Endpoint:
    if body.host is None or body.port is None:
        raise MalformedZnodeError(path, data, "host or port is missing")
    return Endpoint(body.host, body.port)


def _endpoint(path: str, data: bytes, text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    digits = port.removeprefix("-")
    if not (separator and colon and digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(port) <= 65_535):
        raise MalformedZnodeError(path, data, f"endpoint {text!r} is not LISTENER://host:port")
    return Endpoint(host.strip("[]"), int(port), listener, protocols.get(listener, listener))


def encode_controller_registration(
    controller: ControllerId, endpoints: Sequence[Endpoint], now_ms: int, profile: CandidateProfile | None = None
) -> bytes:
    """Like a broker registration, with only the fields needed to find the process, and what it is as a candidate.

    The first endpoint is for clients.
    """
    return msgspec.json.encode(
        {
            "version": 1,
            "host": endpoints[0].host,
            "port": endpoints[0].port,
            "endpoints": [f"{e.listener}://{e.address}" for e in endpoints],
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in endpoints},
            "timestamp": str(now_ms),
            **profile_field(profile),
        }
    )


def decode_controller_registration(controller: ControllerId, data: bytes) -> tuple[Endpoint, ...]:
    """The endpoints of a controller, at least one; the first is for clients."""
    path = controller_registration_path(controller)
    body = decode(_registration_decoder, path, data)
    protocols = body.listener_security_protocol_map or {}
    endpoints = tuple(_endpoint(path, data, text, protocols) for text in body.endpoints or ())
    if not endpoints:
        endpoints = (_host_and_port(path, data, body),)
    _require_endpoints(path, data, endpoints)
    return endpoints


def _require_endpoints(path: str, data: bytes, endpoints: Sequence[Endpoint]) -> None:
    for endpoint in endpoints:
        require(path, data, bounds.HOST, endpoint.host)
        require(path, data, bounds.LISTENER, endpoint.listener, endpoint.security_protocol)
