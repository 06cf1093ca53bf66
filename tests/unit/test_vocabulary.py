"""The words that names and prose may not use, because the field has better ones or because they meant several things.

Names are split into their words (snake and camel). `REFUSED` holds everywhere, prose included; `REFUSED_IN_NAMES` holds
for identifiers, file names, options, keys of JSON and TOML, columns, metrics, comments of the wire format and help.
`REFUSED_PHRASES` are turns of speech that plain English has simpler ones for; they hold everywhere but in tests.
Exceptions are in `vocabulary_allowed.toml`, each with its reason.

As a program it prints what it finds, a line each.
"""

import ast
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = Path(__file__).with_name("vocabulary_allowed.toml")
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")

REFUSED = re.compile(
    r"offices?|reign(s|ed|ing)?|spoil(s|ed|t|ing)?|farewells?|foret(ell|ells|elling|old)|surroundings?|twins?|planted"
    r"|patience|(un)?settl(e|es|ed|ing|ement|ements)"
)
REFUSED_IN_NAMES = re.compile(
    r"told|heard|around|life|lives|lies?|judg(e|es|ed|ing|ment|ments|ement|ements)|pictures?|mistakes?|odd|words"
    r"|stretch(es|ed|ing)?"
)
REFUSED_PREFIX = re.compile(r"_*(note|look)_")
"""`note_*` and `look_*`: of the whole identifier."""

REFUSED_PHRASES = re.compile(
    r"\banew\b|\beverybody\b|\b(?:go|goes|going|gone|went)\s+on\b"
    r"|(?<!one )(?<!none )\bof (?:Apache )?Kafka's(?=[.,;:)])",
    re.IGNORECASE,
)
"""Again, everyone, continue, and a genitive without its noun."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME_LIKE = re.compile(r"[\w./{}%$:\[\]-]+")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SHELL_NAME = re.compile(r"\$\{?(\w+)|^\s*(\w+)(?:\(\)|=)|(--[\w-]+)", re.MULTILINE)


PHRASES_OF_OUTPUT = {("audit/rules/recreations.py", "anew"), ("docs/audit.md", "anew")}
"""`created anew` stands in what an audit has written: programs read it."""


class Hit(NamedTuple):
    file: str
    line: int
    word: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.word}" + (f" in {self.name}" if self.name else "")


def split(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


@cache
def bad_in_name(name: str) -> str | None:
    """The first word of an identifier, an option, a key or a path that is refused there."""
    if REFUSED_PREFIX.match(name):
        return name.lstrip("_").partition("_")[0] + "_*"
    return next((w for w in split(name) if REFUSED.fullmatch(w) or REFUSED_IN_NAMES.fullmatch(w)), None)


_ANY_REFUSED = re.compile(rf"(?<![A-Za-z])(?:{REFUSED.pattern})(?![a-z])", re.IGNORECASE)


def in_prose(file: str, text: str, first_line: int = 1) -> Iterator[Hit]:
    for found in _ANY_REFUSED.finditer(text):
        yield Hit(file, first_line + text.count("\n", 0, found.start()), found.group().lower(), "")


def in_names(file: str, names: Iterable[tuple[int, str]]) -> Iterator[Hit]:
    for line, name in names:
        if (word := bad_in_name(name)) is not None:
            yield Hit(file, line, word, name)


def in_help(file: str, text: str, first_line: int) -> Iterator[Hit]:
    """Text that people get to see as documentation of an interface: both lists hold."""
    for offset, line in enumerate(text.splitlines()):
        for word in split(line):
            if REFUSED_IN_NAMES.fullmatch(word):
                yield Hit(file, first_line + offset, word, "help")


def python_hits(file: str, text: str) -> Iterator[Hit]:
    tree = ast.parse(text)
    docstrings, helps = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for child in node.body:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    docstrings.add(child.value.lineno)
            if is_command(node) and (found := ast.get_docstring(node, clean=False)):
                helps.append((node.body[0].lineno, found))
        elif isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            helps.append((node.value.lineno, str(node.value.value)))
    for line, help_text in helps:
        yield from in_help(file, help_text, line)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield from in_names(file, [(line, token.string)])
        elif token.type == tokenize.COMMENT:
            yield from in_prose(file, token.string, line)
        elif token.type == tokenize.STRING and line not in docstrings:
            yield from string_hits(file, token.string, line)
        elif token.type == tokenize.STRING:
            yield from in_prose(file, token.string, line)


def is_command(node: ast.AST) -> bool:
    """Whether typer makes a command of a function, whose docstring is its help."""
    decorators = getattr(node, "decorator_list", [])
    return any("command(" in ast.unparse(d) or "callback(" in ast.unparse(d) for d in decorators)


def string_hits(file: str, literal: str, line: int) -> Iterator[Hit]:
    content = re.sub(r"^[A-Za-z]*(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$", "", literal)
    if _NAME_LIKE.fullmatch(content):
        yield from in_names(file, [(line, content)])
    else:
        yield from in_prose(file, literal, line)
    if re.match(r"(?i)r?fr?['\"]", literal):
        fields = re.findall(r"\{([^{}]+)\}", literal)
        yield from in_names(file, [(line, name) for field in fields for name in re.findall(r"[A-Za-z_]\w*", field)])


def markdown_hits(file: str, text: str) -> Iterator[Hit]:
    yield from in_prose(file, text)
    for span in (*_CODE_SPAN.finditer(text), *_FENCE.finditer(text)):
        first = 1 + text.count("\n", 0, span.start())
        for name in re.finditer(r"[A-Za-z_][\w-]*", span.group()):
            if not REFUSED.fullmatch(name.group().lower()):
                line = first + span.group().count("\n", 0, name.start())
                yield from in_names(file, [(line, name.group())] if "_" in name.group() or "-" in name.group() else [])


def proto_hits(file: str, text: str) -> Iterator[Hit]:
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.partition("//")
        yield from in_names(file, [(number, name) for name in re.findall(r"\w+", code)])
        yield from in_prose(file, comment, number)
        yield from in_help(file, comment, number)


def toml_hits(file: str, text: str) -> Iterator[Hit]:
    yield from in_prose(file, text)
    keys = re.finditer(r"^\s*\[*\"?([\w.-]+)\"?(?:\]|\s*=)", text, re.MULTILINE)
    yield from in_names(file, [(1 + text.count("\n", 0, key.start(1)), key.group(1)) for key in keys])


def shell_hits(file: str, text: str) -> Iterator[Hit]:
    yield from in_prose(file, text)
    names = ((1 + text.count("\n", 0, f.start()), f.group()) for f in _SHELL_NAME.finditer(text))
    yield from in_names(file, names)


def json_hits(file: str, text: str) -> Iterator[Hit]:
    for found in re.finditer(r'"((?:[^"\\]|\\.)*)"(\s*:)?', text):
        content = found.group(1)
        if found.group(2) or _NAME_LIKE.fullmatch(content):
            if bad_in_name(content) is not None:
                yield from in_names(file, [(1 + text.count("\n", 0, found.start()), content)])
        elif _ANY_REFUSED.search(content):
            yield from in_prose(file, content, 1 + text.count("\n", 0, found.start()))


READERS = {
    ".py": python_hits,
    ".md": markdown_hits,
    ".proto": proto_hits,
    ".toml": toml_hits,
    ".sh": shell_hits,
    ".json": json_hits,
    "": shell_hits,
}


class Allowed(NamedTuple):
    files: str
    words: frozenset[str]
    reason: str

    def excuses(self, hit: Hit) -> bool:
        return fnmatch.fnmatchcase(hit.file, self.files) and bool({hit.word, hit.name} & self.words)


def allowed() -> list[Allowed]:
    entries = tomllib.loads(ALLOWED.read_text())["allowed"]
    return [Allowed(entry["files"], frozenset(entry.get("vocabulary", ())), entry["reason"]) for entry in entries]


def files() -> list[str]:
    """What is tracked and has a reader, besides this test; the shell scripts at the root have no suffix."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    exempt = [entry.files for entry in allowed() if not entry.words]
    return [
        name
        for name in listed.split("\0")
        if name
        and Path(name).suffix in READERS
        and (Path(name).suffix or name in {"klamm", ".ci/run"})
        and not GENERATED.search(name)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in exempt)
        and (ROOT / name).is_file()
    ]


_WORTH_READING = re.compile(
    rf"(?:(?<![A-Za-z])|(?=[A-Z]))(?i:{REFUSED.pattern}|{REFUSED_IN_NAMES.pattern})(?![a-z])"
    rf"|(?<![A-Za-z0-9_]){REFUSED_PREFIX.pattern}"
)
"""Somewhere in every text in which a reader finds something: most have none, and reading them takes seconds."""


@cache
def all_hits() -> tuple[Hit, ...]:
    found: list[Hit] = []
    for name in files():
        text = (ROOT / name).read_text()
        found += in_names(name, [(0, name)])
        found += READERS[Path(name).suffix](name, text) if _WORTH_READING.search(text) else ()
    return tuple(dict.fromkeys(found))


def hits() -> list[Hit]:
    """What no exception excuses."""
    exceptions = allowed()
    return [hit for hit in all_hits() if not any(entry.excuses(hit) for entry in exceptions)]


def test_no_refused_word_stands_in_the_tree() -> None:
    found = hits()
    assert not found, "\n".join(["words of a private vocabulary:", *map(str, found)])


def test_every_exception_has_a_reason_and_is_needed() -> None:
    found = all_hits()
    for entry in allowed():
        assert entry.reason
        assert any(entry.excuses(hit) for hit in found) or (not entry.words and (ROOT / entry.files).is_file()), entry


def phrases(file: str, text: str) -> Iterator[Hit]:
    for found in REFUSED_PHRASES.finditer(text):
        yield Hit(file, 1 + text.count("\n", 0, found.start()), " ".join(found.group().lower().split()), "")


def test_no_refused_phrase_stands_in_programs_and_documents() -> None:
    read = (name for name in files() if not name.startswith("tests/"))
    found = [hit for name in read for hit in phrases(name, (ROOT / name).read_text())]
    left = [hit for hit in found if (hit.file, hit.word) not in PHRASES_OF_OUTPUT]
    assert not left, "\n".join(["again, everyone, continue, or a noun is missing:", *map(str, left)])
    assert PHRASES_OF_OUTPUT.issubset((hit.file, hit.word) for hit in found)


def test_refused_phrases_are_found_over_the_end_of_a_line_too() -> None:
    text = "It goes on,\nanew, for everybody, by a log of Kafka's. None of Kafka's, of Kafka's own: ongoing.\n"
    assert [hit.word for hit in phrases("f.md", text)] == ["goes on", "anew", "everybody", "of kafka's"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("in_office", "office"),
        ("ControllerReigns", "reigns"),
        ("settled_end", "settled"),
        ("_Unsettled", "unsettled"),
        ("TOLD", "told"),
        ("lifeOf", "life"),
        ("--no-patience", "patience"),
        ("_note_cut", "note_*"),
        ("look_up", "look_*"),
        ("test_look", None),
        ("client_believes", None),
        ("lookup_leader", None),
        ("applied", None),
        ("password", None),
        ("lifecycle", None),
    ],
)
def test_identifiers_are_split_into_their_words(name: str, word: str | None) -> None:
    assert bad_in_name(name) == word


@pytest.mark.parametrize(
    "text",
    ["in_office", "ControllerReigns", "HTTPTold", "TOLD", "lifeOf", '"--no-patience"', "x = _note_cut", "A twin."],
)
def test_a_text_with_a_refused_word_is_read(text: str) -> None:
    assert _WORTH_READING.search(text)
    assert list(markdown_hits("f.md", f"`{text}`")) or bad_in_name(text)


def test_each_kind_of_file_is_read() -> None:
    python = 'def judge(x):\n    """A twin."""\n    return f"{told} it"  # a reign\n'
    assert [(hit.line, hit.word) for hit in python_hits("f.py", python)] == [
        (1, "judge"),
        (2, "twin"),
        (3, "told"),
        (3, "reign"),
    ]
    assert [hit.word for hit in proto_hits("f.proto", "string words = 1; // Told so.\n")] == ["words", "told"]
    assert [hit.word for hit in json_hits("f.json", '{"words": "around here, in office"}')] == ["words", "office"]
    assert [hit.word for hit in toml_hits("f.toml", "# told\n[life]\nodd = 1\n")] == ["life", "odd"]
    assert [hit.word for hit in markdown_hits("f.md", "Told of an office: `note_cut`.\n")] == ["office", "note_*"]
    assert [hit.word for hit in shell_hits("f.sh", 'words=1\necho "$patience"\n')] == ["patience", "words", "patience"]


if __name__ == "__main__":
    sys.stdout.writelines(f"{hit}\n" for hit in hits())
