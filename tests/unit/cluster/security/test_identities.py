"""The node that a certificate names, and certificates that name none or too many."""

import pytest

from cluster.model.errors import ConfigError
from cluster.security.identities import NodeName, NodeRole, node_named_by


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ((), None),
        (("spiffe://example/ns/a",), None),
        (("klamm://broker/1",), NodeName(NodeRole.BROKER, 1)),
        (("spiffe://example/ns/a", "klamm://controller/1001"), NodeName(NodeRole.CONTROLLER, 1001)),
    ],
)
def test_a_certificate_names_one_node_or_none(uris: tuple[str, ...], expected: NodeName | None) -> None:
    assert node_named_by(uris) == expected
    assert expected is None or str(expected) in uris


@pytest.mark.parametrize(
    "uris",
    [
        ("klamm://broker/1", "klamm://broker/2"),
        ("klamm://broker/1", "klamm://controller/1"),
        ("klamm://broker/",),
        ("klamm://broker/-1",),
        ("klamm://broker/1/2",),
        ("klamm://broker/2147483648",),
        ("klamm://broker/01",),
        ("klamm://broker/" + "9" * 5_000,),
        ("klamm://broker/\u0661",),
        ("klamm://client/1",),
        ("klamm://",),
    ],
)
def test_a_certificate_with_other_uris_of_nodes_is_no_identity(uris: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="certificate: "):
        node_named_by(uris)
