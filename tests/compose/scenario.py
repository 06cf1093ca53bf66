"""What is checked of the stack: commands from the host, faults under load, health, audit, graceful stop."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from admin.client import AdminClient
from admin.producer import Delivery, Producer
from admin.topology import Topology
from cluster.aio.clock import SystemClock
from tests.compose.stack import BROKERS, CONTROLLERS, CORE, PROMETHEUS, ZOOKEEPERS, Stack, get_json, until
from tests.timeouts import TIMEOUT_S

TOPIC: Final = "orders"
PARTITIONS: Final = 6


class Scenario:
    """Run the methods in their order. `say`: prints what is going on."""

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self._stack, self._say = stack, say
        self._acknowledged: set[str] = set()
        self._cut_broker = ""

    def check_all(self) -> None:
        self._start()
        self._start_observers()
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
            number = 0
            while True:
                await producer.send(TOPIC, None, b"%d" % number)
                number += 1
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
        stack = self._stack
        stack.up("audit")
        self._say("healthy: audit")
        wanted = {"klamm-controller": 3, "klamm-broker": 3, "klamm-audit": 1, "zookeeper": 3, "prometheus": 1}

        def all_are_scraped() -> bool:
            found = get_json(f"{PROMETHEUS}/api/v1/query?query=sum+by+(job)(up)")["data"]["result"]
            up = {series["metric"]["job"]: int(series["value"][1]) for series in found}
            return {job: up.get(job) for job in wanted} == wanted

        until(all_are_scraped, "Prometheus scrapes every process")
        groups = get_json(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
        assert groups, "Prometheus has no rules"

        def asked(query: str) -> list[Any]:
            found: list[Any] = get_json(f"{PROMETHEUS}/api/v1/query?query={query}")["data"]["result"]
            return found

        # The second evaluation of a rule is the first that meets what the first has recorded.
        until(
            lambda: bool(asked("min(prometheus_rule_group_iterations_total)>2")), "rules are evaluated again and again"
        )
        assert asked("prometheus_rule_evaluation_failures_total>0") == []
        managers = get_json(f"{PROMETHEUS}/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
        assert len(managers) == 1
        self._say(
            f"Prometheus scrapes {sum(wanted.values())} processes and has {len(groups)} groups of rules, none in error"
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
