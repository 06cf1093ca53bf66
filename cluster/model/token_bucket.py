"""Tokens that come at a rate and are kept up to a number. Source: Kafka TokenBucket; KIP-599."""


class TokenBucket:
    """The tokens of one who may use `rate` of them per second, and at once as many as come in `burst_s`.

    Full at first. A use may take more than there are: then nothing is left until as many have come. The rate may be
    another one each time. Times are in seconds and never go back.
    """

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens = float("inf")
        self._at_s = 0.0

    def tokens(self, rate: float, now_s: float) -> float:
        """The number of them; below 0 after a use of more than there were."""
        came = rate * (now_s - self._at_s)
        self._tokens, self._at_s = min(self._tokens + came, rate * self._burst_s), now_s
        return self._tokens

    def use(self, amount: float, rate: float, now_s: float) -> None:
        """Take so many tokens, whether there are as many or not."""
        self._tokens = self.tokens(rate, now_s) - amount

    def wait_s(self, rate: float, now_s: float) -> float:
        """The time until there are no less than 0; 0 if that is so now."""
        return max(0.0, -self.tokens(rate, now_s) / rate)
