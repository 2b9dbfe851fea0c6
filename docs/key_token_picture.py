"""Draw the README's picture: one group of the example, right beside wrong, shaded by credit.

python docs/key_token_picture.py GROUP

The rollouts are those of `ktae report --example`. Of each verdict the most frequent two are shown.
"""

import sys
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import ktae
from ktae.report.inputs import load
from ktae.rollouts import EXAMPLE

PICTURE = Path(__file__).parent / "images" / "key-tokens.svg"
ESTIMATOR = "trigrams"
WIDTH, LINE, CHARACTER, LEFT = 860, 30, 8.4, 120
# Blue for, orange against: told apart without seeing red and green. Text on both is dark.
FOR, AGAINST = (33, 120, 205), (230, 120, 20)
HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {{height}}" role="img">
<title>Right beside wrong rollouts of one problem, each token shaded by its credit</title>
<style>
text {{{{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; fill: #1f2328 }}}}
.words {{{{ font-family: system-ui, "DejaVu Sans", sans-serif }}}}
.faint {{{{ font-size: 12.5px; fill: #59636e }}}}
</style>
<rect x="1" y="1" width="{WIDTH - 2}" height="{{inside}}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>
"""


def main(group: str) -> None:
    dump = load(EXAMPLE)
    spelled = dict(zip(dump.token_ids.tolist(), dump.texts, strict=True))
    rows = [
        row for row in ktae.score(dump.rollouts, ESTIMATOR).to_pylist() if row["group"] == group
    ]
    largest = max(abs(credit) for row in rows for credit in row["credit"])
    y = 34
    parts = [words(20, y, rows[0]["prompt"], weight="bold")]
    for verdict, name in ((1.0, "right"), (0.0, "wrong")):
        same = [row for row in rows if row["correct"] == verdict]
        counts = Counter(row["response"] for row in same)
        for response, count in counts.most_common(2):
            y += LINE
            shown = next(row for row in same if row["response"] == response)
            parts.append(words(20, y, f"{name} × {count}" if count > 1 else name, "faint"))
            parts.append(tokens(shown, spelled, y, largest))
        y += 8
    y += LINE
    right = sum(row["correct"] for row in rows)
    parts.append(swatch(LEFT, y, FOR) + words(LEFT + 24, y, "goes with right answers", "faint"))
    parts.append(swatch(LEFT + 200, y, AGAINST) + words(LEFT + 224, y, "with wrong ones", "faint"))
    parts.append(
        words(LEFT + 370, y, f"{right:.0f} of {len(rows)} right; credit: {ESTIMATOR}", "faint")
    )
    height = y + 20
    PICTURE.write_text(
        HEAD.format(height=height, inside=height - 2) + "\n".join(parts) + "\n</svg>\n", "utf-8"
    )


def words(x: float, y: float, text: str, kind: str = "", weight: str = "normal") -> str:
    return (
        f'<text class="words {kind}" x="{x}" y="{y}" font-weight="{weight}">{escape(text)}</text>'
    )


def swatch(x: float, y: float, colour: tuple[int, int, int]) -> str:
    return (
        f'<rect x="{x}" y="{y - 12}" width="16" height="16" fill="rgb{colour}" fill-opacity=".6"/>'
    )


def tokens(row: dict[str, Any], spelled: dict[int, bytes | None], y: float, largest: float) -> str:
    """One line: a shade and a text for each token, of a fixed length whatever the font."""
    parts, x = [], float(LEFT)
    for token, credit in zip(row["token_ids"], row["credit"], strict=True):
        text = (spelled[token] or b"").decode()
        if text.startswith("<|"):
            continue
        width, colour = CHARACTER * len(text), FOR if credit > 0 else AGAINST
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 17}" width="{width:.1f}" height="24" '
            f'fill="rgb{colour}" fill-opacity="{0.75 * abs(credit) / largest:.2f}"/>'
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
    main(sys.argv[1])
