"""The table of the benchmark on Kafka brokers."""

from rich.console import Console

from benchmarks.kafka_cluster import Case, Measurement, Report, print_table


def test_what_only_one_controller_has_leaves_the_other_empty() -> None:
    rows = [
        Measurement("klamm", 0, "controller", {"serves": 0.3, "requests sent": 0.34}),
        Measurement("klamm", 1, "controller", {"serves": 0.5, "requests sent": 0.36}),
        Measurement("Kafka", 0, "controller", {"serves": 7.7}),
    ]
    console = Console(width=120)
    with console.capture() as shown:
        print_table(Report("2 cores", Case("3.9.1", 1000, 1024), rows), console)
    lines = {" ".join(line.split()) for line in shown.get().splitlines()}
    assert "controller serves 0.40 (0.30 to 0.50) 7.70" in lines
    assert "controller requests sent 0.35 (0.34 to 0.36)" in lines
