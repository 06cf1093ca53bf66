"""The report: medians over runs, keys that programs read, and a table that fits its figures."""

import io

import msgspec
from rich.console import Console

from benchmarks.report import CaseRun, Report, Requests, print_table, summarise


def case_run(ms: float, peak_rss_bytes: int | None = 100 * 2**20, **phases: float) -> CaseRun:
    requests = {"LeaderAndIsr": Requests(total=5, most_per_agent=1, bytes=2048)}
    return CaseRun(ms, phases, 7, 20, requests, peak_rss_bytes)


def test_a_case_is_the_median_of_its_runs_and_the_greatest_of_its_peaks() -> None:
    runs = [case_run(300, 10, load=30), case_run(100, 30, load=10), case_run(200, 20, load=20)]
    case = summarise("failover-warm", 10_000, runs)
    assert (case.median_ms, case.phases, case.peak_rss_bytes) == (200, {"load": 20}, 30)


def test_a_phase_that_one_run_lacks_is_the_median_of_the_others() -> None:
    case = summarise("failover", 10_000, [case_run(1, load=10), case_run(1)])
    assert case.phases == {"load": 10}


def test_kafkas_figure_is_shown_only_for_the_size_it_was_measured_with() -> None:
    assert summarise("failover-warm", 10_000, [case_run(1)]).peer_ms == 2_700
    assert summarise("failover-warm", 500, [case_run(1)]).peer_ms is None


def test_the_floor_grows_with_the_size() -> None:
    small, large = (summarise("failover", size, [case_run(1)]).floor_ms for size in (1_000, 10_000))
    assert small is not None
    assert large == 10 * small


def test_a_case_has_the_keys_that_programs_read() -> None:
    report = Report("machine", (summarise("agent-return", 500, [case_run(1, None)]),))
    found = msgspec.json.decode(msgspec.json.encode(report))
    assert found.keys() >= {"machine", "cases"}
    assert found["cases"][0].keys() >= {
        "name", "size", "runs", "median_ms", "phases", "peer_ms", "floor_ms", "peak_rss_bytes",
    }  # fmt: skip


def test_the_table_names_case_figures_and_phases() -> None:
    page = io.StringIO()
    report = Report("a machine", (summarise("failover-warm", 10_000, [case_run(512, load=77)]),))
    print_table(report, Console(file=page, width=200))
    for expected in ("a machine", "failover-warm", "512", "2,700", "LeaderAndIsr: 1 per agent", "100", "load 77"):
        assert expected in page.getvalue()
