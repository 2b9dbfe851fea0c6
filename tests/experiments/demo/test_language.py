"""The library's own language, and how others are found."""

import pytest
from every_language import EveryLanguage
from second_language import MORE, offer

from ktae.errors import InputError
from ktae.experiments.demo import SUMS, language_named


class TestSums(EveryLanguage):
    language = SUMS
    frozen = ("1", "6c2d3e3b5612054a")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so box 7 } but wait , total box 12 } <eos>", 12),
        ("so box 7 } but wait , total box 12", 7),
        ("so box 7 } but wait , total box } <eos>", 7),
        ("box 20 }", None),
        ("box 7 8 }", None),
        ("box", None),
        ("lunchbox 7 }", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_whole_box(response: str, answer: int | None) -> None:
    assert SUMS.extract_answer(response) == answer


def test_languages_by_name(monkeypatch):
    offer(monkeypatch, sums="second_language:MORE", **{MORE.name: "second_language:MORE"})
    assert language_named("sums") is SUMS, "nobody replaces the library's own"
    assert language_named("more-sums") is MORE
    with pytest.raises(InputError, match="latin"):
        language_named("latin")
