"""The commands that the documents show: blocks of shell, and what is said of each in a comment before it.

<!-- first: seq 10 > numbers -->     a command that the reader does not see, run before the block; there may be several
<!-- exit code 3 -->                 of the block's last command; 0 otherwise
<!-- interrupted -->                 it goes on until Ctrl-C
<!-- not run: why -->                it is not run by a test
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = tuple(
    path
    for pattern in ("*.md", "docs/**/*.md", "tests/*/README.md", "benchmarks/README.md", "deploy/**/*.md")
    for path in sorted(ROOT.glob(pattern))
)
_BLOCK: Final = re.compile(r"((?:^<!-- [^\n]* -->\n+)*)^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!-- (first|exit code|interrupted|not run)(?::? +(.*?))? -->")
PROGRAMS: Final = re.compile(
    r"(?:\./|\.venv/bin/|[A-Z_]+=\S* )*"
    r"(?:klamm|python|pip|pipx|kafka-[a-z-]+|seq|curl|docker|docker-compose|kubectl|systemctl|promtool|grpcurl|npm|node|go|git|export)(?=\s)"
)
"""What the first line of a block of commands begins with."""


@dataclass(frozen=True)
class Block:
    """Commands that are shown together. `not_run`: why no test runs them."""

    page: Path
    line: int
    text: str
    first: tuple[str, ...] = ()
    exit_code: int = 0
    interrupted: bool = False
    not_run: str | None = None

    @property
    def commands(self) -> list[str]:
        """One for each line of shell; a line that ends with a backslash goes on."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of shell in a page, in their order."""
    return blocks_of(page, page.read_text("utf-8"))


def blocks_of(page: Path, text: str) -> Iterator[Block]:
    """Those in the text of a page."""
    for match in _BLOCK.finditer(text):
        comments = _COMMENT.findall(match[1])
        said = {kind: value for kind, value in comments if kind != "first"}
        yield Block(
            page,
            text.count("\n", 0, match.start(2)) + 1,
            match[2],
            tuple(value for kind, value in comments if kind == "first"),
            int(said.get("exit code", 0)),
            "interrupted" in said,
            said.get("not run"),
        )


def unmarked_commands(page: Path) -> list[str]:
    """Lines of blocks that look like commands and are not marked as shell."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    found = re.findall(r"(?:\A|\n\n)((?:    .*\n)+)", text) + re.findall(r"^```(?!\w)\n(.*?)^```$", text, re.M | re.S)
    return [line.strip() for block in found if PROGRAMS.match((line := block.splitlines()[0]).strip())]
