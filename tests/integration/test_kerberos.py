"""Kerberos itself: a key distribution center on loopback, both sides of an exchange, and what is said when it fails."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.model.errors import ConfigError
from cluster.sasl.gssapi import GssapiClientExchange, GssapiServerExchange
from cluster.sasl.kerberos import KerberosLogin, begin_as_client, begin_as_server, check_keytab, own_realm
from cluster.sasl.mechanisms import AuthenticationFailedError, SaslStep
from tests.processes.kdc import REALM, Kdc, running_kdc

SERVICE = "kafka/localhost"


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as found:
        yield found


@pytest.fixture
def kdc(center: Kdc, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    monkeypatch.setenv("KRB5_CONFIG", str(center.config))
    return center


def login(keytab: Path, principal: str, service: str = "kafka") -> KerberosLogin:
    return KerberosLogin(f"{principal}@{REALM}", str(keytab), service)


def user_of(client: KerberosLogin, server: KerberosLogin, host: str = "localhost") -> SaslStep:
    """The last step of the server."""
    of_client = GssapiClientExchange(lambda: begin_as_client(client, host))
    of_server = GssapiServerExchange(lambda: begin_as_server(server), lambda principal: principal)
    step = SaslStep()
    while (message := of_client.step(step.answer)) is not None:
        step = of_server.step(message)
    return step


def test_a_principal_proves_who_it_is_to_another(kdc: Kdc) -> None:
    server, client = login(kdc.keytab("server", SERVICE), SERVICE), login(kdc.keytab("alice", "alice"), "alice")
    step = user_of(client, server)
    assert step.user == f"alice@{REALM}"
    assert step.lifetime_s is not None
    assert step.lifetime_s > 60
    assert own_realm() == REALM


def test_tickets_last_while_no_center_answers(kdc: Kdc) -> None:
    server, client = login(kdc.keytab("server", SERVICE), SERVICE), login(kdc.keytab("ann", "ann"), "ann")
    user_of(client, server)
    kdc.stop()
    try:
        assert user_of(client, server).user == f"ann@{REALM}"
        new = login(kdc.keytab("new", "new"), "new")
        with pytest.raises(
            ConfigError, match="Cannot contact any KDC for realm .*: start the KDC, or correct its addre"
        ):
            user_of(new, server)
    finally:
        kdc.start()


def test_what_keeps_a_client_from_a_ticket_is_said_with_what_to_do(kdc: Kdc) -> None:
    keytab = kdc.keytab("bob", "bob")
    client, server = login(keytab, "bob"), login(kdc.keytab("server", SERVICE), SERVICE)
    with pytest.raises(
        ConfigError, match=f"kafka/elsewhere@{REALM} not found in Kerberos database: make it in the KDC"
    ):
        user_of(client, server, "elsewhere")
    with pytest.raises(ConfigError, match=f"No key table entry found for nobody@{REALM}"):
        user_of(login(keytab, "nobody"), server)
    old = shutil.copy(keytab, kdc.folder / "old.keytab")
    kdc.keytab("bob", "bob")
    with pytest.raises(ConfigError, match="the keytab has old keys: export it again from the KDC"):
        user_of(login(Path(old), "bob"), server)


def test_what_keeps_a_server_from_taking_a_ticket_is_for_its_log(kdc: Kdc) -> None:
    client = login(kdc.keytab("eve", "eve"), "eve")
    server = login(kdc.keytab("of-other", "kafka/other"), "kafka/other")
    kdc.keytab("server", SERVICE)
    with pytest.raises(AuthenticationFailedError) as failed:
        user_of(client, server)
    assert "the keytab of the login module lacks the keys of the principal that clients ask for" in failed.value.why
    assert SERVICE not in str(failed.value)
    with pytest.raises(AuthenticationFailedError):
        GssapiServerExchange(lambda: begin_as_server(server), str).step(b"no token")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0o600, "No such file or directory"),
        (b"garbage", 0o600, "Unsupported key table format version number"),
        (b"", 0o600, "keyTab"),
        (b"\5\2", 0o644, "has keys, and others may read or change it (mode 644): chmod 600"),
        (b"\5\2", 0o600, "No key table entry found for alice@"),
    ],
)
def test_a_keytab_that_cannot_be_used_is_named(
    kdc: Kdc, tmp_path: Path, content: bytes | None, mode: int, why: str
) -> None:
    path = tmp_path / "keytab"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(ConfigError) as error:
        check_keytab(login(path, "alice"))
    assert str(path) in str(error.value)
    assert why in str(error.value)
