"""Counters, gauges and timers in memory, exposed to Prometheus under Kafka's names.

Updates are O(1) and in memory, so that the same code runs in the simulator; sorting and formatting happen at scrape
time. `catalogue` says what each means. Source of names: Kafka's MBeans as the JMX exporter formats them without
rules, e.g. `kafka.controller:type=KafkaController,name=X` as `kafka_controller_kafkacontroller_x`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from cluster.metrics.catalogue import meanings
from cluster.metrics.quantiles import quantile

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_WINDOW: Final = 1024
"""Number of latest values from which quantiles are computed."""


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, n: float = 1) -> None:
        self.value += n

    def dec(self, n: float = 1) -> None:
        self.value -= n


Samples = Iterable[tuple[Mapping[str, str], float]]
"""Labels and value of each."""


class Readings:
    """Values read at scrape time, on the scraper's thread."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Samples]) -> None:
        self.read = read


class Meter:
    """A counter of events; rates are computed by Prometheus."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, n: int = 1) -> None:
        """Count `n` events."""
        self.count += n


class TextGauge:
    """A state as text; exposed as 1 with the text in the label `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = ""

    def set(self, value: str) -> None:
        self.value = value


class Histogram:
    """Count and sum of all values, quantiles of the latest 1024."""

    __slots__ = ("_newest", "count", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum: float = 0
        self._newest: list[float] = []

    def update(self, value: float) -> None:
        """Record a value."""
        if len(self._newest) < _WINDOW:
            self._newest.append(value)
        else:
            self._newest[self.count % _WINDOW] = value
        self.count += 1
        self.sum += value

    def reset(self) -> None:
        """Remove all values, including the count."""
        self.count, self.sum, self._newest = 0, 0, []

    def quantiles(self) -> list[float]:
        """Compute a value for each entry of QUANTILES, by nearest rank; zeros if nothing was recorded."""
        ranked = sorted(self._newest)
        return [quantile(ranked, share) for share in QUANTILES]


class Timer(Histogram):
    """A histogram of durations in ms."""

    __slots__ = ()

    def update_ms(self, duration_ms: float) -> None:
        """Record a duration."""
        self.update(duration_ms)


Instrument = Gauge | Readings | Meter | TextGauge | Histogram
_I = TypeVar("_I", Gauge, Meter, TextGauge, Timer, Histogram)


class _Key(NamedTuple):
    domain: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]


class Metrics(Collector):
    """The registry of one process. Requesting the same metric twice returns the same object.

    Tags are keyword arguments and become labels; in `**{"broker-id": 1}` the dash becomes an underscore.
    """

    def __init__(self) -> None:
        self._instruments: dict[_Key, Instrument] = {}

    def gauge(self, domain: str, type_: str, name: str, **tags: object) -> Gauge:
        """Register a gauge, or return the one of this name and tags."""
        return self._get(Gauge, domain, type_, name, tags)

    def readings(self, domain: str, type_: str, name: str, read: Callable[[], Samples]) -> None:
        """Expose what `read` returns at each scrape as gauges; for many metrics whose objects come and go."""
        self._instruments[_key(domain, type_, name, {})] = Readings(read)

    def meter(self, domain: str, type_: str, name: str, **tags: object) -> Meter:
        """Register a meter, or return the one of this name and tags."""
        return self._get(Meter, domain, type_, name, tags)

    def text(self, domain: str, type_: str, name: str, **tags: object) -> TextGauge:
        """Register a gauge with a text, or return the one of this name and tags."""
        return self._get(TextGauge, domain, type_, name, tags)

    def timer(self, domain: str, type_: str, name: str, **tags: object) -> Timer:
        """Register a timer, or return the one of this name and tags."""
        return self._get(Timer, domain, type_, name, tags)

    def histogram(self, domain: str, type_: str, name: str, **tags: object) -> Histogram:
        """Register a histogram, or return the one of this name and tags."""
        return self._get(Histogram, domain, type_, name, tags)

    def remove(self, domain: str, type_: str, name: str, **tags: object) -> None:
        """Remove a metric; no effect if there is none."""
        self._instruments.pop(_key(domain, type_, name, tags), None)

    def collect(self) -> Iterator[Family]:
        """Yield all metric families, sorted by name. Called on the scraper's thread."""
        # The list is copied in one step of the interpreter, so the event loop may register more meanwhile.
        instruments = list(self._instruments.items())
        families: dict[str, Family] = {}
        for key, instrument in instruments:
            name = exposition_name(key.domain, key.type, key.name)
            family = families.get(name)
            if family is None:
                bean = f"{key.domain}:type={key.type},name={key.name}"
                family = families[name] = Family(name, meanings().get(bean, bean), _family_type(instrument))
            _add_samples(family, instrument, dict(key.tags))
        return iter([families[name] for name in sorted(families)])

    def _get(self, kind: type[_I], domain: str, type_: str, name: str, tags: Mapping[str, object]) -> _I:
        instrument = self._instruments.setdefault(_key(domain, type_, name, tags), kind())
        assert type(instrument) is kind, f"{domain}:type={type_},name={name} is a {type(instrument).__name__}"
        return instrument


def exposition_name(domain: str, type_: str, name: str) -> str:
    """Write an MBean's name as Prometheus shows it: domain, type and name in lower case, joined by `_`."""
    return re.sub(r"[^a-z0-9_]", "_", f"{domain}_{type_}_{name}".lower())


def _key(domain: str, type_: str, name: str, tags: Mapping[str, object]) -> _Key:
    labels = sorted((re.sub(r"\W", "_", tag), str(value)) for tag, value in tags.items())
    return _Key(domain, type_, name, tuple(labels))


def _family_type(instrument: Instrument) -> str:
    match instrument:
        case Meter():
            return "counter"
        case Histogram():
            return "summary"
    return "gauge"


def _add_samples(family: Family, instrument: Instrument, labels: dict[str, str]) -> None:
    match instrument:
        case Gauge():
            family.add_sample(family.name, labels, instrument.value)
        case Readings():
            for tags, value in instrument.read():
                family.add_sample(family.name, dict(tags), value)
        case Meter():
            family.add_sample(f"{family.name}_total", labels, instrument.count)
        case TextGauge():
            family.add_sample(family.name, {**labels, "value": instrument.value}, 1)
        case Histogram():
            for quantile, value in zip(QUANTILES, instrument.quantiles(), strict=True):
                family.add_sample(family.name, {**labels, "quantile": str(quantile)}, value)
            family.add_sample(f"{family.name}_count", labels, instrument.count)
            family.add_sample(f"{family.name}_sum", labels, instrument.sum)
