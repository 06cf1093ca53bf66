"""Interrupts that wait for the program to ask."""

import os
import signal

import pytest

from audit.spark.interrupts import deferred_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_end_of_what_it_must_not_break(number: signal.Signals) -> None:
    before, done = signal.getsignal(number), []

    def work() -> None:
        with deferred_interrupts() as interrupted:
            os.kill(os.getpid(), number)
            done.append(interrupted.is_set())

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [True]
    assert signal.getsignal(number) is before


def test_an_interrupt_that_was_obeyed_is_over() -> None:
    with deferred_interrupts() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.clear()
    assert not interrupted.is_set()


def test_a_second_interrupt_waits_for_nothing() -> None:
    before, done = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("first")
            os.kill(os.getpid(), signal.SIGINT)
            done.append("second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["first"]
    assert signal.getsignal(signal.SIGINT) is before
