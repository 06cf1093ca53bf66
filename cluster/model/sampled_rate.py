"""A rate over the last seconds, from samples of fixed length. Source: Kafka SampledStat, SimpleRate, Rate."""

from collections import deque


class SampledRate:
    """The sum of what was recorded in the last `samples` times `sample_ms`, per second of that time.

    The time is from the oldest sample that counts, `lowest_ms` at least, which is one sample unless it is given: a rate
    is not diluted before anything happened.
    """

    def __init__(self, samples: int, sample_ms: float, *, lowest_ms: float | None = None) -> None:
        self._span_ms, self._sample_ms = samples * sample_ms, sample_ms
        self._lowest_ms = sample_ms if lowest_ms is None else lowest_ms
        self._samples: deque[tuple[float, float]] = deque()
        """(begin, sum), oldest first."""

    def record(self, amount: float, now_ms: float) -> None:
        """Add an amount to the sample of this moment."""
        self._forget_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._sample_ms:
            begin, total = self._samples[-1]
            self._samples[-1] = (begin, total + amount)
        else:
            self._samples.append((now_ms, amount))

    def per_second(self, now_ms: float, *, more: float = 0) -> float:
        """The rate; `more`: as if this had been recorded just now."""
        window_ms = self.window_ms(now_ms)
        return (sum(total for _, total in self._samples) + more) * 1000 / window_ms

    def window_ms(self, now_ms: float) -> float:
        """The time over which the rate is taken now."""
        self._forget_old(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        return max(elapsed_ms, self._lowest_ms, 1)

    def _forget_old(self, now_ms: float) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._span_ms:
            self._samples.popleft()
