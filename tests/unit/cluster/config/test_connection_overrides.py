"""`max.connections.per.ip.overrides`."""

import pytest

from cluster.config.connection_overrides import connection_overrides

pytestmark = pytest.mark.rule("D-106")


def test_hosts_and_numbers() -> None:
    assert connection_overrides(None) == connection_overrides(" ") == {}
    given = "10.0.0.9:3000, gateway:20,[fe80::1]:5,::1:7"
    assert connection_overrides(given) == {"10.0.0.9": 3000, "gateway": 20, "fe80::1": 5, "::1": 7}


@pytest.mark.parametrize("given", ["10.0.0.9", "a:b", ":5", "a:-1", "a:5,b"])
def test_what_is_neither(given: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:NUMBER"):
        connection_overrides(given)
