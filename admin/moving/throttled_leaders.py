"""Keeps for how long brokers do not hear this client, as it is over a quota, and says so while it waits for that.

A throttled client that says nothing looks like one that hangs. Source: KIP-219.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from admin.connecting.connection import ClusterConnection
from admin.connecting.waiting import Wait


class ThrottledLeaders:
    """The brokers, by address, whose last answer said that this client is over its quota. Times: of the event loop."""

    def __init__(self, client: ClusterConnection) -> None:
        self._client = client
        self._until: dict[str, float] = {}
        self._waits: dict[str, Wait] = {}
        self.total_ms = 0
        """The sum of the throttle times of all answers."""

    def answered(self, address: str, throttle_time_ms: int) -> None:
        """Take the throttle time of an answer; 0: the client is within its quota."""
        if throttle_time_ms > 0:
            self.total_ms += throttle_time_ms
            self._until[address] = asyncio.get_running_loop().time() + throttle_time_ms / 1000
        elif self._until.pop(address, None) is not None:
            self._end_wait(address)

    def failed(self, address: str) -> None:
        """Take note that a request got no answer: after the time of the throttle, that is not the reason for it."""
        until = self._until.get(address)
        if until is not None and until <= asyncio.get_running_loop().time():
            self.answered(address, 0)

    def until(self, address: str) -> float | None:
        """The time until which the broker does not hear this client; None where its last answer named none."""
        return self._until.get(address)

    def describe(self, address: str) -> str:
        """Say that the broker throttles this client; "" where it does not."""
        until = self._until.get(address)
        if until is None:
            return ""
        left_s = until - asyncio.get_running_loop().time()
        again = f"again in {left_s:.1f} s" if left_s > 0 else "only now and then"
        name = self._client.name(address)
        return f"throttled by quota: {name} hears this client {again}"

    @property
    def is_throttled(self) -> bool:
        """Whether a broker does not hear this client now."""
        now = asyncio.get_running_loop().time()
        return any(until > now for until in self._until.values())

    def hold(self, deadlines: Mapping[str, float]) -> None:
        """Count a wait for each of these brokers, for which records are held back until the deadline at most.

        It lasts until the broker no longer throttles this client, or nothing is left: short throttles, one after the
        other, are one wait.
        """
        now = asyncio.get_running_loop().time()
        for address, deadline in deadlines.items():
            if address not in self._waits:
                wait = self._client.waiting.begin(partial(self.describe, address), deadline - now)
                self._waits[address] = wait

    def release(self) -> None:
        """End all waits, as no record is left."""
        for address in tuple(self._waits):
            self._end_wait(address)

    def _end_wait(self, address: str) -> None:
        wait = self._waits.pop(address, None)
        if wait is not None:
            self._client.waiting.end(wait)
