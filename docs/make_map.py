"""Write the table of Kafka's classes into docs/map.md from the lines "Source: Kafka …" of our docstrings.

Run it after such a line or a module's place has changed: .venv/bin/python docs/make_map.py
"""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "map.md"
BEGIN, END = "<!-- kafka-classes:begin -->", "<!-- kafka-classes:end -->"
_SOURCE = re.compile(r"Source:\s+Kafka(?:'s)?\s+(.*?)(?:\.\s*$|\.\s+[A-Z]|\n\n|\Z)", re.DOTALL)
# A class, and perhaps its method: `Partition.makeLeader`; not KIP-497, nor a name in capitals alone.
_CLASS = re.compile(r"\b([A-Z][a-z]\w*[A-Za-z]\w*)(?:\.[a-z]\w*)*")
# Words of these sources that name no class of Kafka.
_NO_CLASSES = frozenset({"Configuration", "Pending", "ZooKeeper"})


def modules_of_classes() -> dict[str, list[str]]:
    """The modules that name each class of Kafka as their source, in their order."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S607 - PATH says which.
    for file in listed.splitlines():
        if file.startswith(("tests/", "docs/", "benchmarks/", "proto/", "cluster/kafka_wire/messages/")):
            continue
        for docstring in _docstrings((ROOT / file).read_text("utf-8")):
            for source in _SOURCE.finditer(docstring):
                for name in _CLASS.findall(source[1]):
                    found[name].add(file)
    return {name: sorted(found[name]) for name in sorted(found, key=str.lower) if name not in _NO_CLASSES}


def _docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        # Of a field or constant too: it is the string that follows.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def table() -> str:
    rows = [f"| {name} | {', '.join(f'`{file}`' for file in files)} |" for name, files in modules_of_classes().items()]
    return "\n".join(["| Kafka | klamm |", "|---|---|", *rows])


def with_table(page: str) -> str:
    """The page with the table between the two marks made again."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
