"""What is checked of the stack: commands from the host, faults under load, health, audit, graceful stop."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from admin.connecting.client import AdminClient
from admin.describing.topology import Topology
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from tests.compose.observation import Observation
from tests.compose.stack import BROKERS, CONTROLLERS, CORE, PROMETHEUS, ZOOKEEPERS, Stack, get_json, until
from tests.documents.pages import ROOT
from tests.observability.sums import MESSAGES_IN, sums
from tests.timeouts import TIMEOUT_S

TOPIC: Final = "orders"
PARTITIONS: Final = 6
SUMS: Final = sums(topics=1, partitions=PARTITIONS, replicas=len(BROKERS), brokers=len(BROKERS))
SCRAPED: Final = {"klamm-controller": 3, "klamm-broker": 3, "zookeeper": 3, "prometheus": 1}
_LOOK_BACK: Final = ("ZooKeeperSessionExpired", "RepeatedControllerElections", "IsrFlapping")
"""Alerts that tell of the faults long after they are healed."""


class Scenario:
    """Run the methods in their order. `say`: prints what is going on."""

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self._stack, self._say = stack, say
        self._acknowledged: set[str] = set()
        self._records = 0
        self._cut_broker = ""
        self._numbers = itertools.count()
        self._observation = Observation(PROMETHEUS)

    def check_all(self) -> None:
        self._start()
        self._start_observers()
        asyncio.run(self._check_sums_of_a_healthy_cluster())
        asyncio.run(self._break_it_while_producing())
        self._read_everything_back()
        self._check_alerts()
        self._check_observers()
        self._check_audit()
        self._stop_gracefully()

    def _start(self) -> None:
        stack = self._stack
        stack.up(*CORE)
        self._say(f"{len(CORE)} containers are healthy")
        states = {name: stack.execute(name, "klamm", "health").stdout.strip() for name in CONTROLLERS.values()}
        assert sorted(states.values()) == ["active", "standby", "standby"], states
        assert {stack.execute(name, "klamm", "health").stdout for name in BROKERS.values()} == {"registered\n"}
        for name in (*CONTROLLERS.values(), *BROKERS.values()):
            _check_restrictions(stack, name)
        stack.klamm("topics", "create", TOPIC, f"--partitions={PARTITIONS}", "--replication-factor=3")
        assert len(self._partitions()) == PARTITIONS
        stack.klamm("produce", TOPIC, stdin="".join(f"first-{n}\n" for n in range(1000)))
        self._acknowledged |= {f"first-{n}" for n in range(1000)}
        in_container = stack.compose("run", "--rm", "cli", "topics", "list", "-o", "json")
        assert TOPIC in in_container
        self._say("topic created, 1000 records produced from the host, listed from a container")

    async def _break_it_while_producing(self) -> None:
        stack = self._stack
        faults = (
            ("broker that leads", lambda: BROKERS[self._leader()]),
            ("active controller", lambda: CONTROLLERS[self._active_controller()]),
            ("leading ZooKeeper", self._leading_zookeeper),
        )
        async with self._producing():
            await asyncio.to_thread(self._stop_one_gracefully)
            for what, find in faults:
                service = await asyncio.to_thread(find)
                await asyncio.to_thread(stack.kill, service)
                self._say(f"killed {service}, the {what}")
                await self._until_acknowledged(len(self._acknowledged) + 100)
                await asyncio.to_thread(stack.start, service)
                await asyncio.to_thread(self._until_well)
            broker = await asyncio.to_thread(self._leader)
            await asyncio.to_thread(self._cut, broker)
        self._say(f"{len(self._acknowledged)} records acknowledged")

    def _stop_one_gracefully(self) -> None:
        """A broker under load moves its leaderships away before it ends, within its stop period."""
        stack, broker = self._stack, self._leader()
        service = BROKERS[broker]
        stack.compose("stop", service)
        assert stack.exit_code(service) == 0, f"{service}: exit code {stack.exit_code(service)}"
        assert "Controlled shutdown succeeded" in stack.log(service), stack.log(service)
        leaders = {p["leader"] for p in self._partitions()}
        assert leaders <= set(BROKERS) - {broker}, f"leaders are {leaders} after {service} was stopped"
        stack.start(service)
        self._until_well()
        self._say(f"stopped {service} under load: leaderships moved first, exit code 0")

    def _cut(self, broker: int) -> None:
        stack, service = self._stack, BROKERS[broker]
        stack.cut(service)
        self._cut_broker = service
        self._say(f"cut {service} from the network")
        until(lambda: stack.health(service) == "unhealthy", f"{service} is unhealthy")
        until(lambda: self._leader() != broker, f"another broker leads than {broker}")
        stack.reconnect(service)
        stack.until_healthy(service)
        self._until_well()

    def _until_well(self) -> None:
        """Every broker is in every ISR, preferred leaders lead, and there is nothing to report."""
        stack = self._stack
        until(lambda: all(set(p["isr"]) == set(BROKERS) for p in self._partitions()), "all replicas are in sync")
        stack.klamm("elect", "preferred", "--all-topic-partitions")
        until(lambda: stack.klamm("cluster", "health", check=False).returncode == 0, "the cluster is healthy")

    async def _check_sums_of_a_healthy_cluster(self) -> None:
        """What a person sees two minutes after starting the stack with the profile `observe`, which has no audit."""
        observation = self._observation
        await asyncio.to_thread(observation.check_targets, SCRAPED, down=["klamm-audit"])
        rules = await asyncio.to_thread(observation.check_rules, ROOT / "deploy/prometheus")
        self._say(f"after two rounds all {rules} rules are healthy")
        async with self._producing():
            rate = await self._check_rates()
        records = len(self._acknowledged)
        truths = {
            **SUMS,
            "count(up == 1)": sum(SCRAPED.values()),
            f'sum({MESSAGES_IN}{{topic=""}})': records,
            f'sum({MESSAGES_IN}{{topic="{TOPIC}"}})': records,
            **self._end_offsets(records),
        }
        await asyncio.to_thread(observation.check_sums, truths)
        observation.check_no_alert_has_fired()
        self._say(f"{len(truths)} sums are true: {json.dumps(truths, indent=1)}")
        self._say(f"the rate of records is, too: {rate:.0f}/s; no alert has fired")

    async def _check_rates(self) -> float:
        """The sums of the brokers' rates are what a steady producer sends; returns that."""
        counters = [f'{MESSAGES_IN}{{topic="{topic}"}}' for topic in ("", TOPIC)]
        before, began = len(self._acknowledged), time.monotonic()

        def rate() -> float:
            return (len(self._acknowledged) - before) / (time.monotonic() - began)

        for counter in counters:
            await asyncio.to_thread(until, lambda c=counter: self._observation.has_grown_for_a_minute(c), "it grows")
            await asyncio.to_thread(
                until,
                lambda c=counter: self._observation.is_rate(c, rate()),
                f"the rates of {counter} are {rate():.0f}/s",
            )
        return rate()

    @staticmethod
    def _end_offsets(records: int) -> dict[str, float]:
        """Of all replicas."""
        return {f'sum(kafka_log_log_logendoffset{{topic="{TOPIC}"}})': records * len(BROKERS)}

    async def _until_acknowledged(self, number: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self._acknowledged) < number:  # noqa: ASYNC110 - the producer's callback knows no waiter.
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _producing(self) -> AsyncIterator[None]:
        """Records come all the time; those that are acknowledged are kept in mind, whatever becomes of others."""

        def keep(delivery: Delivery) -> None:
            if delivery.error is None:
                self._acknowledged.update(value.decode() for value in delivery.values if value is not None)

        async def produce(producer: Producer) -> None:
            for number in self._numbers:
                await producer.send(TOPIC, None, b"%d" % number)
                await asyncio.sleep(0.01)

        async with (
            AdminClient(self._stack.bootstrap, timeout_ms=TIMEOUT_S * 1000) as admin,
            Producer(Topology(admin), SystemClock(), on_delivery=keep) as producer,
        ):
            endless = asyncio.create_task(produce(producer))
            try:
                yield
                assert not endless.done(), endless
            finally:
                endless.cancel()
                await asyncio.wait([endless])

    def _read_everything_back(self) -> None:
        consumed = self._stack.klamm("consume", TOPIC, "--from-beginning", "--until-end").stdout.splitlines()
        self._records = len(consumed)
        lost = self._acknowledged - set(consumed)
        assert not lost, f"{len(lost)} acknowledged records are lost: {sorted(lost)[:5]}"
        self._say(f"all {len(self._acknowledged)} acknowledged records read back, {len(consumed)} in all")

    def _start_observers(self) -> None:
        stack = self._stack
        stack.start_webhook()
        stack.up(*stack.observers)
        self._say(f"healthy: {', '.join(stack.observers)}")
        if "grafana" not in stack.observers:
            self._say("SKIPPED: Grafana, whose image only a registry has")

    def _check_alerts(self) -> None:
        """The broker that was cut from the network lost its session: an alert that fires at once."""
        wanted = ("ZooKeeperSessionExpired", self._cut_broker)
        received = self._stack.alerts_received
        try:
            until(lambda: wanted in received(), f"Alertmanager sends {wanted} to the webhook")
        except AssertionError as error:
            raise AssertionError(f"{error}: {received()}\n{self._stack.log('alertmanager')}") from None
        self._say(f"alerts that Alertmanager has sent to a webhook: {sorted(received())}")

    def _check_observers(self) -> None:
        """With the audit, and after the faults; what the brokers have counted before those is gone."""
        stack, observation = self._stack, self._observation
        stack.up("audit")
        self._say("healthy: audit")
        scraped = {**SCRAPED, "klamm-audit": 1}
        observation.check_targets(scraped)
        rules = observation.check_rules(ROOT / "deploy/prometheus")
        truths = {**SUMS, "count(up == 1)": sum(scraped.values()), **self._end_offsets(self._records)}
        observation.check_sums(truths)
        observation.until_no_alert_fires(except_for=_LOOK_BACK)
        managers = get_json(f"{PROMETHEUS}/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
        assert len(managers) == 1
        self._say(
            f"Prometheus scrapes {sum(scraped.values())} processes and has {rules} rules, all healthy; "
            f"{len(truths)} sums are true again, and no alert fires but those of past faults"
        )

    def _check_audit(self) -> None:
        stack, found = self._stack, dict[str, Any]()

        def is_clean() -> bool:
            answer = stack.execute("audit", "klamm", "audit", "report", "--output=/var/lib/klamm/audit", "-o", "json")
            found.update(json.loads(answer.stdout))
            return found["verdict"] == "clean" and found["records"] > 0

        try:
            until(is_clean, "the audit is clean")
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}\n{stack.log('audit')}") from None
        self._say(f"the audit of {found['records']} state-change records is clean")

    def _stop_gracefully(self) -> None:
        stack = self._stack
        stack.compose("stop")
        stopped = (*CONTROLLERS.values(), *BROKERS.values(), "audit")
        codes = {service: stack.exit_code(service) for service in stopped}
        assert set(codes.values()) == {0}, codes
        for service in BROKERS.values():
            assert "Broker agent is shutting down" in stack.log(service), stack.log(service)
        self._say(f"stopped gracefully, exit codes {codes}")

    def _leader(self) -> int:
        return int(self._partitions()[0]["leader"])

    def _partitions(self) -> list[dict[str, Any]]:
        (topic,) = json.loads(self._stack.klamm("topics", "describe", TOPIC, "-o", "json").stdout)["topics"]
        partitions: list[dict[str, Any]] = topic["partitions"]
        return partitions

    def _active_controller(self) -> int:
        described = json.loads(self._stack.klamm("cluster", "describe", "-o", "json").stdout)
        return int(described["controller"]["id"])

    def _leading_zookeeper(self) -> str:
        script = "exec 3<>/dev/tcp/127.0.0.1/2181; printf srvr >&3; cat <&3"
        modes = {name: self._stack.execute(name, "bash", "-c", script).stdout for name in ZOOKEEPERS}
        return next(name for name, mode in modes.items() if "Mode: leader" in mode)


def _check_restrictions(stack: Stack, service: str) -> None:
    """It is no root, writes to its volume and to /tmp only, and carries no tests."""
    program = (
        "import os, pathlib, klamm; assert os.getuid() == 10001\n"
        "app = pathlib.Path(klamm.__file__).parent / 'app'\n"
        "print(sorted(p.name for p in app.iterdir() if p.name in ('tests', 'benchmarks')))\n"
        "for folder in ('/opt/klamm', '/etc', '/'):\n"
        "    try: pathlib.Path(folder, 'x').touch()\n"
        "    except OSError as error: print(error.errno)"
    )
    answer = stack.execute(service, "/opt/klamm/bin/python", "-c", program)
    assert answer.stdout.splitlines()[0] == "[]", answer
    assert set(answer.stdout.splitlines()[1:]) <= {"13", "30"}, answer
    assert len(answer.stdout.splitlines()) == 4, answer
