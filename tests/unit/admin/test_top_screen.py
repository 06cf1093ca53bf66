"""The screen of `klamm top`: what a long wait is for is in it, not written into it from outside."""

from io import StringIO

import pytest
from rich.console import Console

from admin.cli.top import Screen
from admin.connecting.waiting import Notice

NOTICE = Notice(
    "no answer yet: broker-1:9092, broker-2:9092, broker-3:9092 not answering (connection refused); waiting up to 28 s "
    "more",
    has_limit=True,
)


def on_terminal() -> tuple[Screen, StringIO]:
    shown = StringIO()
    return Screen(live=True, console=Console(file=shown, force_terminal=True, width=80, height=20)), shown


def test_on_a_terminal_the_screen_says_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    screen, shown = on_terminal()
    with screen:
        screen.say_wait(NOTICE)
        assert NOTICE.text in " ".join(shown.getvalue().split())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("live", [False, True])
def test_before_there_is_a_screen_the_wait_is_said_like_that_of_any_command(
    live: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = on_terminal()[0] if live else Screen(live=False)
    screen.say_wait(NOTICE)
    assert capsys.readouterr().err == f"{NOTICE.text}; --timeout changes it\n"
