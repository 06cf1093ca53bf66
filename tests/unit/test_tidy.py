"""Style that no linter knows: sizes of files and functions, banned calls, no traces of one machine."""

import ast
import re
import subprocess
import warnings
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "proto/klamm",
    "cluster",
    "state_log",
    "controller",
    "broker_agent",
    "admin",
    "audit",
    "simulator",
    "adoption",
    "deploy",
    "launcher",
    "benchmarks",
)
GENERATED = "proto/klamm/v1"

FILE_LINES_WARNED = 400
FILE_LINES_MAX = 600
TEST_FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

CLOCK_FILES = re.compile(
    r"(adapters/|adoption/|deploy/|launcher/|benchmarks/|admin/|audit/|cluster/(aio|metrics|process|tls)/|cluster/zookeeper/kazoo|broker_agent/log/"
    r"|cluster/rpc/(authentication|client_sessions)|cluster/kafka_wire/client_authentication|state_log/(writer|apis)|__main__|program\.py)"
)
"""Where wall clock and threads may be used: adapters, programs and what only runs in real processes."""


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True)
    names = (name for name in listed.stdout.decode().split("\0") if name)
    return [ROOT / name for name in names if not name.startswith(GENERATED) and (ROOT / name).exists()]


def sources() -> list[Path]:
    return tracked(*(f"{package}/**/*.py" for package in PACKAGES), *(f"{package}/*.py" for package in PACKAGES))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_source_file_outgrows_one_concept() -> None:
    sizes = {name(path): len(path.read_text().splitlines()) for path in sources()}
    for file, size in sizes.items():
        if size > FILE_LINES_WARNED:
            warnings.warn(f"{file} has {size} lines: does it have one reason to change?", stacklevel=2)
    assert {file: size for file, size in sizes.items() if size > FILE_LINES_MAX} == {}


def test_no_test_file_grows_beyond_reading() -> None:
    sizes = {name(path): len(path.read_text().splitlines()) for path in tracked("tests/**/*.py", "tests/*.py")}
    assert {file: size for file, size in sizes.items() if size > TEST_FILE_LINES_MAX} == {}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{name(path)}:{function.name} {size}"
        for path in sources()
        for function in functions(path)
        if (size := (function.end_lineno or function.lineno) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_public_class_names_are_unique() -> None:
    """A reader who searches for a class finds one. Kafka's generated messages have their schemas' names."""
    places: dict[str, list[str]] = {}
    for path in sources():
        if name(path).startswith(("cluster/kafka_wire/messages/", "benchmarks/")):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    assert {class_name: files for class_name, files in places.items() if len(files) > 1} == {}


def imported(path: Path) -> Iterator[str]:
    """What a file names in its imports, those for type checkers and late ones included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_modules_import_one_another_in_a_circle() -> None:
    modules = {name(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in sources()}
    knows = {module: {*imported(path)} & modules.keys() - {module} for module, path in modules.items()}
    # Raises CycleError, which names the circle.
    TopologicalSorter(knows).prepare()


@pytest.mark.parametrize(
    ("banned", "why"),
    [
        (r"\basyncio\.create_task\(", "tasks belong to a task group, so that one that dies is noticed"),
        (r"\btime\.(time|monotonic|sleep|perf_counter)\(", "durations come from the loop, stamps from WallClock"),
        (r"\basyncio\.to_thread\(", "threads live in adapters"),
        (r"\bdatetime\.(now|utcnow)\(", "stamps come from WallClock"),
        (r"\brandom\.(random|randint|choice|shuffle)\(", "randomness is injected"),
        (r"\buuid\.uuid4\(", "randomness is injected"),
    ],
)
def test_production_code_reads_no_clock_and_starts_no_thread_outside_adapters(banned: str, why: str) -> None:
    pattern = re.compile(banned)
    found = [
        f"{name(path)}:{number}"
        for path in sources()
        if not CLOCK_FILES.search(name(path))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == [], why


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string that stands by itself: docstrings, those of attributes included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_docstrings_say_what_a_thing_does_before_they_cite_a_rule() -> None:
    rule = re.compile(r"\s*(?:See\s+)?(?:R\d+\.|P|[A-Z]{2,4}-)\d+\b")
    found = [f"{name(path)}:{line}" for path in tracked("*.py") for line, text in docstrings(path) if rule.match(text)]
    assert found == []


def test_docstrings_of_functions_begin_with_a_verb_or_a_subject() -> None:
    """Not with a fragment: what it is `Of`, `By` whom, `What` it returns."""
    fragment = re.compile(
        r"(?:All|As|At|By|Each|For|From|How|In|None|Not|Of|On|One|Only|Raises|So|Those|What|When|Where|Which|Who|Why"
        r"|With|Without)\b"
    )
    found = [
        f"{name(path)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and fragment.match(ast.get_docstring(node) or "")
    ]
    assert found == [], 'begin with a verb, "The" or "Whether"'


def test_nothing_refers_to_a_text_that_is_not_here() -> None:
    elsewhere = re.compile(r"\u00a7\s*\d|(?i:agent specification)")
    found = [
        f"{name(path)}:{number}"
        for path in tracked("*.py", "*.md", "*.toml", "*.proto")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if elsewhere.search(line)
    ]
    assert found == []


def test_exit_codes_have_names() -> None:
    by_number = re.compile(r"(?:typer\.Exit|sys\.exit|EXIT_\w+(?:: \w+)? =)\(?\s*(?:code=)?\d")
    found = [
        f"{name(path)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if by_number.search(line)
    ]
    assert found == [], "an ExitCode says what it means"


def test_no_todo_and_no_machine_path_in_the_tree() -> None:
    unwanted = re.compile(r"\b(TODO|FIXME|XXX)\b|(?<![\w.{}])/(home|root|Users)/")
    found = [
        f"{name(path)}:{number}"
        for path in tracked("*.py", "*.md", "*.toml", "*.proto", "klamm", ".ci/run", "deploy")
        if path.is_file() and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if unwanted.search(line)
    ]
    assert found == []
