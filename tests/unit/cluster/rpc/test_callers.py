"""Who calls, by what is verified of the call."""

import pytest

from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.callers import CallerIdentifier, host_of
from cluster.security.identities import Identity, NodeName, NodeRole
from cluster.security.mapping import parse_mapping_rules
from cluster.security.principals import ANONYMOUS, Principal

PEER = "ipv4:192.0.2.7:4711"


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        (PEER, "192.0.2.7"),
        ("ipv6:%5B::1%5D:4711", "0:0:0:0:0:0:0:1"),
        ("ipv6:[2001:db8::a0b]:1", "2001:db8:0:0:0:0:0:a0b"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80:0:0:0:0:0:0:1%eth0"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:1", "192.0.2.7"),
        ("unix:", ""),
        ("ipv4:", ""),
        ("", ""),
    ],
)
def test_a_host_is_written_as_in_the_rules_of_kafka(peer: str, host: str) -> None:
    assert host_of(peer) == host


@pytest.mark.parametrize(
    ("authenticated", "identity"),
    [
        ({}, Identity(ANONYMOUS, "192.0.2.7")),
        ({"x509_subject": [b"CN=ann"]}, Identity(Principal("User", "ann"), "192.0.2.7")),
        (
            {"x509_subject": [b"CN=node"], "peer_uri": [b"spiffe://a/b", b"klamm://broker/3"]},
            Identity(Principal("User", "node"), "192.0.2.7", NodeName(NodeRole.BROKER, 3)),
        ),
    ],
)
def test_a_certificate_says_who_calls(authenticated: dict[str, list[bytes]], identity: Identity) -> None:
    secured = CallerIdentifier(is_secured=True, mapping=parse_mapping_rules(r"RULE:CN=(\w+)/$1/"))
    assert secured.identify(PEER, authenticated, {"authorization": "Bearer x"}).identity == identity
    assert CallerIdentifier().identify(PEER, authenticated, {"authorization": "Bearer x"}).identity == Identity(
        ANONYMOUS, "192.0.2.7"
    )


def test_where_the_brokers_are_apache_kafkas_no_certificate_names_a_node() -> None:
    """Their authority may sign any URI that a client asks for."""
    callers = CallerIdentifier(is_secured=True, knows_nodes=False)
    shown = {"x509_subject": [b"CN=ann"], "peer_uri": [b"klamm://broker/1"]}
    assert callers.identify(PEER, shown, {}).identity == Identity(Principal("User", "CN=ann"), "192.0.2.7")


@pytest.mark.parametrize(
    ("uris", "subject", "why"),
    [
        ([b"klamm://broker/1", b"klamm://broker/2"], b"CN=ann", "has 2 URIs of nodes"),
        ([b"klamm://broker/x"], b"CN=ann", "its URI 'klamm://broker/x' is not"),
        ([], b"O=ann", "none of ssl.principal.mapping.rules"),
    ],
)
def test_a_certificate_that_is_no_identity_is_refused(uris: list[bytes], subject: bytes, why: str) -> None:
    callers = CallerIdentifier(is_secured=True, mapping=parse_mapping_rules(r"RULE:CN=(\w+)/$1/"))
    with pytest.raises(ApiError, match=why) as refused:
        callers.identify(PEER, {"x509_subject": [subject], "peer_uri": uris}, {})
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
