"""Sessions and exchanges on a clock of the test: how long they last, and how many there are at most."""

import pytest

from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc import exchanges, sessions
from cluster.rpc.exchanges import Exchanges
from cluster.rpc.sessions import Sessions, UserSession
from cluster.sasl.mechanisms import SaslStep
from cluster.security.principals import Principal

ALICE, BOB = (Principal("User", name) for name in ("alice", "bob"))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Nobody:
    """A mechanism with which nobody is ever authenticated."""

    def step(self, message: bytes) -> SaslStep:
        return SaslStep(message)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refusal(held: Sessions, token: str, listener: str = "EXTERNAL", fingerprint: str = "") -> str:
    with pytest.raises(ApiError) as refused:
        held.find(token, listener, fingerprint)
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert token not in str(refused.value)
    return refused.value.message


def test_a_session_counts_until_it_ends(clock: Clock) -> None:
    held = Sessions(clock)
    session = UserSession(ALICE, "EXTERNAL", clock.now + 10)
    token = held.begin(session)
    clock.now += 9.9
    assert held.find(token, "EXTERNAL", "") is session
    clock.now += 0.1
    assert "has expired" in refusal(held, token)
    assert "does not know the token" in refusal(held, token)
    assert len(held) == 0


def test_a_token_counts_where_it_was_issued_and_with_its_certificate(clock: Clock) -> None:
    held = Sessions(clock)
    token = held.begin(UserSession(ALICE, "EXTERNAL", clock.now + 10, "f1"))
    assert "issued at the listener EXTERNAL, not at INSIDE" in refusal(held, token, "INSIDE", "f1")
    for fingerprint in ("", "f2"):
        assert "another certificate" in refusal(held, token, fingerprint=fingerprint)
    assert held.find(token, "EXTERNAL", "f1").principal == ALICE


def test_all_sessions_of_a_user_end_at_once(clock: Clock) -> None:
    held = Sessions(clock)
    tokens = [held.begin(UserSession(who, "EXTERNAL", clock.now + 10)) for who in (ALICE, ALICE, BOB)]
    assert (held.end_all_of(ALICE), held.end_all_of(ALICE)) == (2, 0)
    for token in tokens[:2]:
        refusal(held, token)
    assert held.find(tokens[2], "EXTERNAL", "").principal == BOB


def test_the_oldest_session_makes_room_for_the_newest(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    monkeypatch.setattr(sessions, "SESSIONS_OF_PRINCIPAL_MAX", 2)
    held = Sessions(clock)
    of_bob = held.begin(UserSession(BOB, "EXTERNAL", clock.now + 10))
    of_alice = [held.begin(UserSession(ALICE, "EXTERNAL", clock.now + 10)) for _ in range(3)]
    # Whoever begins many ends their own.
    refusal(held, of_alice[0])
    assert held.find(of_bob, "EXTERNAL", "").principal == BOB
    held.begin(UserSession(Principal("User", "carol"), "EXTERNAL", clock.now + 10))
    refusal(held, of_bob)
    assert len(held) == 3
    # Those that have expired leave with the next ones.
    clock.now += 10
    held.begin(UserSession(BOB, "EXTERNAL", clock.now + 10))
    held.begin(UserSession(BOB, "EXTERNAL", clock.now + 10))
    assert len(held) == 2


def test_an_exchange_lasts_for_some_seconds_and_is_taken_once(clock: Clock) -> None:
    held = Exchanges(clock)
    first, second = (held.keep(held.begin(Nobody(), "EXTERNAL", "h")) for _ in range(2))
    assert held.take(first, "EXTERNAL").host == "h"
    clock.now += exchanges.LASTS_S
    for gone in (first, second, "made up"):
        with pytest.raises(ApiError, match="no such exchange is under way") as refused:
            held.take(gone, "EXTERNAL")
        assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert len(held) == 0


def test_an_exchange_belongs_to_its_listener(clock: Clock) -> None:
    held = Exchanges(clock)
    exchange_id = held.keep(held.begin(Nobody(), "EXTERNAL", "h"))
    with pytest.raises(ApiError):
        held.take(exchange_id, "INSIDE")


def test_a_host_has_so_many_exchanges_under_way_and_others_are_not_kept_out(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "EXCHANGES_OF_HOST_MAX", 2)
    monkeypatch.setattr(exchanges, "EXCHANGES_MAX", 3)
    held = Exchanges(clock)
    with (
        held.handling(held.begin(Nobody(), "EXTERNAL", "attacker")),
        held.handling(held.begin(Nobody(), "EXTERNAL", "attacker")),
    ):
        with (
            pytest.raises(ApiError, match="2 authentications of this host are under way") as refused,
            held.handling(held.begin(Nobody(), "EXTERNAL", "attacker")),
        ):
            pass
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        with (
            held.handling(held.begin(Nobody(), "EXTERNAL", "other")),
            pytest.raises(ApiError, match="3 authentications of all"),
            held.handling(held.begin(Nobody(), "EXTERNAL", "third")),
        ):
            pass
    assert len(held) == 0


def test_exchanges_that_wait_longest_end_for_others(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half exchanges of a stranger behind the same address do not keep users out."""
    monkeypatch.setattr(exchanges, "EXCHANGES_OF_HOST_MAX", 2)
    monkeypatch.setattr(exchanges, "EXCHANGES_MAX", 3)
    held = Exchanges(clock)
    oldest, second = (held.keep(held.begin(Nobody(), "EXTERNAL", "shared")) for _ in range(2))
    with held.handling(held.begin(Nobody(), "EXTERNAL", "shared")):
        with pytest.raises(ApiError):
            held.take(oldest, "EXTERNAL")
        elsewhere = held.keep(held.begin(Nobody(), "EXTERNAL", "elsewhere"))
        with held.handling(held.begin(Nobody(), "EXTERNAL", "third")):
            assert len(held) == 3
            with pytest.raises(ApiError):
                held.take(second, "EXTERNAL")
        assert held.take(elsewhere, "EXTERNAL").host == "elsewhere"
