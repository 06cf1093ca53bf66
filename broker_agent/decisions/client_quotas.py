"""How long a client over its quota is throttled.

Source: Kafka ClientQuotaManager, QuotaUtils.throttleTime; KIP-13.
"""

from cluster.model.bounds import INT32_MAX


def throttle_time_ms(rate: float, quota: float, window_ms: float) -> int:
    """The time after which the mean of the window is the quota again, if nothing comes; 0 if it is not exceeded.

    At most what an answer can say.
    """
    return max(0, round(min((rate - quota) / quota * window_ms, INT32_MAX)))
