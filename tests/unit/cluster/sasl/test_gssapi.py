"""The exchange of RFC 4752 over a security context of a key that both sides know; Kerberos has a test of its own."""

import hmac

import pytest

from cluster.model.errors import ConfigError
from cluster.sasl.gssapi import GssapiClientExchange, GssapiServerExchange, SecurityContextError
from cluster.sasl.mechanisms import AuthenticationFailedError, SaslStep

KEY = b"of both"
CLIENT = "alice@EXAMPLE"


class Keyed:
    """A context of one token, or of two if the client wants the server's proof; messages carry a keyed digest."""

    def __init__(self, name: str = "", key: bytes = KEY, *, is_mutual: bool = True) -> None:
        self.client, self.lifetime_s = name, 60.0
        self._is_client, self._key, self._is_mutual = bool(name), key, is_mutual
        self.is_established = False

    def step(self, token: bytes) -> bytes:
        if not token:
            self.is_established = not self._is_mutual
            return self.wrap(bytes([self._is_mutual]) + self.client.encode())
        found = self.unwrap(token)
        self.is_established = True
        if self._is_client:
            return b""
        self.client = found[1:].decode()
        return self.wrap(b"proof") if found[0] else b""

    def wrap(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256") + message

    def unwrap(self, message: bytes) -> bytes:
        digest, found = message[:32], message[32:]
        if digest != hmac.digest(self._key, found, "sha256"):
            raise SecurityContextError("a wrong digest")
        return found


def user_of(principal: str) -> str:
    name, _, realm = principal.partition("@")
    if realm != "EXAMPLE":
        raise ConfigError([f"no rule for {principal}"])
    return name


def server(context: Keyed | None = None) -> GssapiServerExchange:
    return GssapiServerExchange(lambda: context or Keyed(), user_of)


def converse(client: GssapiClientExchange, of_server: GssapiServerExchange) -> tuple[SaslStep, int]:
    """The last step of the server, and how many messages of the client there were."""
    step, messages = SaslStep(), 0
    while (message := client.step(step.answer)) is not None:
        messages += 1
        step = of_server.step(message)
    return step, messages


@pytest.mark.parametrize(("is_mutual", "messages"), [(True, 3), (False, 2)])
def test_the_client_of_an_established_context_is_its_user(is_mutual: bool, messages: int) -> None:
    """Kafka's clients want no proof of the server; klamm does."""
    client = GssapiClientExchange(lambda: Keyed(CLIENT, is_mutual=is_mutual))
    step, sent = converse(client, server())
    assert (step.user, step.lifetime_s, sent) == ("alice", 60.0, messages)


def test_both_sides_offer_and_take_no_layer_of_protection() -> None:
    context = Keyed()
    exchange = server(context)
    offer = exchange.step(Keyed(CLIENT, is_mutual=False).step(b"")).answer
    assert context.unwrap(offer) == b"\1\0\0\0"
    assert exchange.step(context.wrap(b"\1\0\0\0")).user == "alice"
    client = GssapiClientExchange(lambda: Keyed(CLIENT, is_mutual=False))
    client.step(b"")
    # As the JDK's server with all layers offers them.
    choice = client.step(context.wrap(b"\7\1\0\0"))
    assert choice is not None
    assert context.unwrap(choice) == b"\1\0\0\0"


def test_for_whom_the_client_asks_to_act_does_not_count() -> None:
    context = Keyed()
    exchange = server(context)
    exchange.step(Keyed(CLIENT, is_mutual=False).step(b""))
    assert exchange.step(context.wrap(b"\1\0\0\0kafkaclient")).user == "alice"


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (b"\2\1\0\0", "wants a layer of protection"),
        (b"\1", "wants a layer of protection"),
        (b"", "wants a layer of protection"),
    ],
)
def test_a_client_that_wants_a_layer_is_refused(choice: bytes, why: str) -> None:
    context = Keyed()
    exchange = server(context)
    exchange.step(Keyed(CLIENT, is_mutual=False).step(b""))
    with pytest.raises(AuthenticationFailedError) as failed:
        exchange.step(context.wrap(choice))
    assert why in failed.value.why
    assert CLIENT not in str(failed.value)
    with pytest.raises(AuthenticationFailedError):
        exchange.step(context.wrap(b"\1\0\0\0"))


@pytest.mark.parametrize(("offer", "why"), [(b"\6\1\0\0", "demands a layer of protection"), (b"\1", "has 1 bytes")])
def test_a_server_that_demands_a_layer_is_refused(offer: bytes, why: str) -> None:
    client = GssapiClientExchange(lambda: Keyed(CLIENT, is_mutual=False))
    client.step(b"")
    with pytest.raises(ConfigError, match=why):
        client.step(Keyed().wrap(offer))


def test_a_server_that_does_not_know_the_key_is_refused() -> None:
    client = GssapiClientExchange(lambda: Keyed(CLIENT))
    client.step(b"")
    with pytest.raises(ConfigError, match="a wrong digest"):
        client.step(Keyed(key=b"other").wrap(b"proof"))


def test_a_client_that_does_not_know_the_key_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError) as failed:
        server().step(Keyed(CLIENT, b"other").step(b""))
    assert failed.value.why == "GSSAPI: a wrong digest"
    exchange = server()
    exchange.step(Keyed(CLIENT).step(b""))
    with pytest.raises(AuthenticationFailedError):
        exchange.step(b"more")


def test_a_principal_without_a_user_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError) as failed:
        converse(GssapiClientExchange(lambda: Keyed("alice@OTHER")), server())
    assert failed.value.why == "GSSAPI: no rule for alice@OTHER"


def test_a_server_without_keys_refuses_nobody_for_a_wrong_proof() -> None:
    def open_context() -> Keyed:
        raise ConfigError(["no keytab"])

    with pytest.raises(ConfigError, match="no keytab"):
        GssapiServerExchange(open_context, user_of).step(b"token")
