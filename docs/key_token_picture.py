"""Draw the README's picture: one group of rollouts, right beside wrong, shaded by credit.

    python docs/key_token_picture.py

`key_tokens.jsonl` has 12 rollouts of SmolLM2-135M-Instruct (Apache-2.0), sampled at temperature 0.6
after two worked examples, with their tokens. Of a dozen problems this one was taken since its
rollouts are short and of both kinds. The reward asks whether the last number is the answer.
"""

import json
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

import ktae

ROLLOUTS = Path(__file__).with_name("key_tokens.jsonl")
PICTURE = Path(__file__).parent / "images" / "key-tokens.svg"
ESTIMATOR = "trigrams"
WIDTH, LINE, CHARACTER, LEFT = 700, 32, 8.8, 108
# Blue for, orange against: told apart without seeing red and green. Text on both is dark.
FOR, AGAINST = (54, 140, 231), (240, 130, 30)
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Right beside wrong rollouts of one problem, each token shaded by its credit</title>
<style>
text {{ font: 14.5px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; fill: #1f2328 }}
.words {{ font-family: system-ui, "DejaVu Sans", sans-serif }}
.faint {{ font-size: 13px; fill: #59636e }}
</style>
<rect x="1" y="1" width="{inside}" height="{below}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>
"""


def main() -> None:
    rows = [json.loads(line) for line in ROLLOUTS.read_text("utf-8").splitlines()]
    texts = sorted({text for row in rows for text in row["tokens"]})
    ids = [[texts.index(text) for text in row["tokens"]] for row in rows]
    table = pa.Table.from_pylist(rows).append_column("token_ids", pa.array(ids))
    rows = ktae.score(table, ESTIMATOR).to_pylist()
    largest = max(abs(credit) for row in rows for credit in row["credit"])
    y = 34
    parts = [words(20, y, rows[0]["prompt"], weight="bold")]
    for reward, name in ((1.0, "right"), (0.0, "wrong")):
        same = [row for row in rows if row["reward"] == reward]
        y += 6
        for response, count in Counter(row["response"] for row in same).most_common():
            y += LINE
            shown = next(row for row in same if row["response"] == response)
            parts.append(words(20, y, f"{name} × {count}" if count > 1 else name, "faint"))
            parts.append(tokens(shown, y, largest))
    y += LINE + 10
    for x, colour, text in (
        (20, FOR, "goes with right answers"),
        (222, AGAINST, "with wrong ones"),
    ):
        parts.append(f'<rect x="{x}" y="{y - 13}" width="16" height="16" fill="rgb{colour}"/>')
        parts.append(words(x + 24, y, text, "faint"))
    height = y + 18
    head = HEAD.format(width=WIDTH, height=height, inside=WIDTH - 2, below=height - 2)
    PICTURE.write_text(head + "\n".join(parts) + "\n</svg>\n", "utf-8")


def words(x: float, y: float, text: str, kind: str = "", weight: str = "normal") -> str:
    return (
        f'<text class="words {kind}" x="{x}" y="{y}" font-weight="{weight}">{escape(text)}</text>'
    )


def tokens(row: dict[str, Any], y: float, largest: float) -> str:
    """One line: a shade and a text for each token, of a fixed length whatever the font."""
    parts, x = [], float(LEFT)
    for text, credit in zip(row["tokens"], row["credit"], strict=True):
        width, colour = CHARACTER * len(text), FOR if credit > 0 else AGAINST
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 18}" width="{width:.1f}" height="25" '
            f'fill="rgb{colour}" fill-opacity="{0.9 * abs(credit) / largest:.2f}"/>'
        )
        if bare := text.strip():
            start = x + CHARACTER * (len(text) - len(text.lstrip()))
            parts.append(
                f'<text x="{start:.1f}" y="{y}" textLength="{CHARACTER * len(bare):.1f}">'
                f"{escape(bare)}</text>"
            )
        x += width
    return "".join(parts)


if __name__ == "__main__":
    main()
