"""Write the table of stated deviations into docs/recorded-deviations.md.

Run it after a change below tests/recorded/stated_deviations: .venv/bin/python docs/make_deviations_table.py
"""

from pathlib import Path

from tests.recorded.deviations import Deviation, stated, stated_names

PAGE = Path(__file__).resolve().parent / "recorded-deviations.md"
BEGIN, END = "<!-- deviations:begin -->", "<!-- deviations:end -->"


def steps(deviation: Deviation) -> str:
    return ", ".join(map(str, sorted({*deviation.steps, *deviation.varies})))


def with_tables(text: str) -> str:
    """Replace the table between the two marks in `text`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = [
        f"| {name} | {steps(deviation)} | {deviation.kafka} | {deviation.klamm} | {deviation.rule} |"
        for name in stated_names()
        for deviation in stated(name)
    ]
    table = "\n".join(["| scenario | steps | Kafka | klamm instead | rule |", "|---|---|---|---|---|", *rows])
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
