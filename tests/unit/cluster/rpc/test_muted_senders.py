"""Muted senders are heard again in the order in which they spoke."""

import asyncio

import pytest

from cluster.rpc import muted_senders
from cluster.rpc.muted_senders import MutedSenders, Sender
from tests.brokers.agents import virtually

ONE, OTHER = Sender("ann", "app", "ipv4:1.2.3.4:5"), Sender("ann", "app", "ipv4:1.2.3.4:6")


@pytest.mark.rule("R18.6")
def test_many_that_wait_continue_in_order_though_each_is_throttled_again() -> None:
    # On a real loop: timers for the same moment fire there in any order.
    passed: list[int] = []
    muted = MutedSenders()

    async def speak(number: int) -> None:
        await muted.wait_for_turn(ONE)
        passed.append(number)
        if number % 20 == 0:
            muted.mute(ONE, 3)

    async def main() -> None:
        muted.mute(ONE, 10)
        speaking = []
        for number in range(200):
            speaking.append(asyncio.ensure_future(speak(number)))
            await asyncio.sleep(0)
        await asyncio.gather(*speaking)
        await muted.wait_for_turn(ONE)
        assert muted.left_ms(ONE) == 0
        assert not muted

    asyncio.run(main())
    assert passed == list(range(200))


@pytest.mark.rule("R18.6")
@virtually
async def test_one_that_gives_up_lets_the_next_continue_and_no_other_sender_waits() -> None:
    muted, loop = MutedSenders(), asyncio.get_running_loop()
    muted.mute(ONE, 1000)
    muted.mute(ONE, 500)
    assert (muted.left_ms(ONE), muted.left_ms(OTHER)) == (1000, 0)
    first, second = (asyncio.ensure_future(muted.wait_for_turn(ONE)) for _ in range(2))
    await muted.wait_for_turn(OTHER)
    assert loop.time() == 0
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert loop.time() == 1
    assert not muted


@pytest.mark.rule("R18.6")
@pytest.mark.parametrize("throttle_ms", [1e10, float("inf")])
@virtually
async def test_no_mute_is_longer_than_an_answer_can_say(throttle_ms: float) -> None:
    muted = MutedSenders()
    muted.mute(ONE, throttle_ms)
    assert muted.left_ms(ONE) == 2**31 - 1


@pytest.mark.rule("R18.6")
@virtually
async def test_of_too_many_the_one_that_was_muted_first_is_forgotten_unless_it_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(muted_senders, "_MUTED_MAX", 3)
    muted = MutedSenders()
    senders = [Sender("ann", "app", f"ipv4:1.2.3.4:{port}") for port in range(4)]
    for sender in senders[:3]:
        muted.mute(sender, 1000)
    waiting = asyncio.ensure_future(muted.wait_for_turn(senders[0]))
    await asyncio.sleep(0)
    muted.mute(senders[3], 1000)
    assert [muted.left_ms(sender) for sender in senders] == [1000, 0, 1000, 1000]
    await waiting
