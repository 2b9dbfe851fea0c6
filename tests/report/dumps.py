"""Small dumps for the tests of the report, and what a page holds."""

import base64
import zlib

from ktae.report.contents import contents


def unpack(block):
    return zlib.decompress(base64.b64decode(block), -15)


def page_data(dump, *estimator, **options):
    """What the page of a dump says, but for its tokens and texts."""
    return contents(dump, *estimator, **options).page


def finding(page, key):
    """The finding of a key; None where there is none."""
    return next((x for x in page.findings if x.key == key), None)


def move(page, fragment):
    """Follow a link of the page, which has drawn what is there when this returns."""
    page.evaluate(
        """(hash) => new Promise((drawn) => {
             addEventListener('hashchange', () => drawn(), { once: true });
             location.hash = hash; })""",
        fragment,
    )


# Two correct and two incorrect rollouts; the last states the right answer and goes on.
ROLLOUTS = [
    {"group": "sum", "prompt": "2 + 2?", "answer": "4", "response": text, "reward": reward}
    for text, reward in (
        ("two and two, so the answer is 4", 1),
        ("it is easy: the answer is 4", 1),
        ("maybe maybe the answer is 5", 0),
        ("the answer is 4 hmm wait maybe the answer is 5 maybe", 0),
    )
]


def graded_row(group, response, reward, answer="4"):
    return {"group": group, "response": response, "reward": reward, "answer": answer}


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]
