"""Draw the README's picture: one group of responses, shaded by credit.

    python docs/key_token_picture.py

`key_tokens.jsonl` has 12 rollouts of SmolLM2-135M-Instruct (Apache-2.0), sampled at temperature 0.6
after two worked examples, with their tokens. Of a dozen problems this one was taken since its
rollouts are short and of both kinds. The reward asks whether the last number is the answer.
"""

import json
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import ktae

FOLDER = Path(__file__).parent
WIDTH, LINE, CHARACTER, LEFT = 700, 32, 8.8, 128
# Blue and orange are told apart without seeing red and green. Text on both is dark.
TOWARD, AGAINST = "rgb(54, 140, 231)", "rgb(240, 130, 30)"
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Correct beside incorrect responses to one problem, each token shaded by its credit</title>
<style>
text {{ font: 14.5px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; fill: #1f2328 }}
.words {{ font-family: system-ui, "DejaVu Sans", sans-serif }}
.faint {{ font-size: 13px; fill: #59636e }}
</style>
<rect x="1" y="1" width="{inside}" height="{below}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>
"""


def main() -> None:
    rows = [json.loads(line) for line in (FOLDER / "key_tokens.jsonl").open(encoding="utf-8")]
    texts = sorted({text for row in rows for text in row["tokens"]})
    for row in rows:
        row["token_ids"] = [texts.index(text) for text in row["tokens"]]
    rows = ktae.score(rows, "trigrams")
    largest = max(abs(credit) for row in rows for credit in row["credit"])
    y = 34
    parts = [f'<text class="words" x="20" y="{y}" font-weight="bold">{rows[0]["prompt"]}</text>']
    for reward, name in ((1.0, "correct"), (0.0, "incorrect")):
        y += 6
        same = {row["response"]: row for row in rows if row["reward"] == reward}
        counts = Counter(row["response"] for row in rows)
        for response in sorted(same, key=counts.__getitem__, reverse=True):
            y += LINE
            n = counts[response]
            parts += [words(20, y, f"{name} × {n}" if n > 1 else name)]
            parts += tokens(same[response], y, largest)
    y += LINE + 10
    for x, colour, text in (
        (20, TOWARD, "in correct ones"),
        (182, AGAINST, "in incorrect ones; estimator: trigrams"),
    ):
        parts += [f'<rect x="{x}" y="{y - 13}" width="16" height="16" fill="{colour}"/>']
        parts += [words(x + 24, y, text)]
    height = y + 18
    head = HEAD.format(width=WIDTH, height=height, inside=WIDTH - 2, below=height - 2)
    picture = head + "\n".join(parts) + "\n</svg>\n"
    (FOLDER / "images/key-tokens.svg").write_text(picture, "utf-8")


def words(x: int, y: int, text: str) -> str:
    return f'<text class="words faint" x="{x}" y="{y}">{text}</text>'


def tokens(row: dict[str, Any], y: int, largest: float) -> Iterator[str]:
    """A shade and a text for each token, of a fixed length whatever the font."""
    x = float(LEFT)
    for text, credit in zip(row["tokens"], row["credit"], strict=True):
        width, colour = CHARACTER * len(text), TOWARD if credit > 0 else AGAINST
        opacity = f"{0.9 * abs(credit) / largest:.2f}"
        shape = f'x="{x:.1f}" y="{y - 18}" width="{width:.1f}" height="25"'
        yield f'<rect {shape} fill="{colour}" fill-opacity="{opacity}"/>'
        if bare := text.strip():
            start = x + CHARACTER * (len(text) - len(text.lstrip()))
            yield (
                f'<text x="{start:.1f}" y="{y}" textLength="{CHARACTER * len(bare):.1f}">'
                f"{escape(bare)}</text>"
            )
        x += width


if __name__ == "__main__":
    main()
