"""One line at the end of a test run: how many commands the documents show, and how many of them tests run."""

from typing import Any

from tests.documents.pages import PAGES, Block, blocks


def shown(all_blocks: list[Block]) -> str:
    """How many commands are run, how many are not."""
    run = [block for block in all_blocks if block.not_run is None]
    left = [block for block in all_blocks if block.not_run is not None]
    commands = sum(len(block.commands) for block in run)
    return (
        f"documents: {commands} commands of {len({block.page for block in run})} pages are run by tests, "
        f"{sum(len(block.commands) for block in left)} are not, each for a stated reason"
    )


class DocumentSummary:
    """Says it in the terminal, where tests of documents ran."""

    def __init__(self) -> None:
        self._ran = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._ran |= "tests/documents/" in report.nodeid

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._ran:
            terminalreporter.write_line(shown([block for page in PAGES for block in blocks(page)]))
