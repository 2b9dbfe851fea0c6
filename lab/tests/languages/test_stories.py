import random
import re
from collections import Counter

import pytest
from every_language import EveryLanguage
from hypothesis import given
from hypothesis import strategies as st

from ktae_lab.languages import stories
from ktae_lab.languages.stories import NAMES, STORIES, THINGS, Sentence, StoriesProblem

TALE = StoriesProblem(
    (
        Sentence("has", "tom", "shells", 12),
        Sentence("more", "ann", "shells", 5, other="tom"),
        Sentence("finds", "tom", "hats", 4),
        Sentence("gives", "ann", "shells", 6, other="tom"),
        Sentence("buys", "tom", "shells", 2, 8),
    ),
    "together",
    "shells",
    "tom",
    "ann",
)

problems = st.integers(0, 2**32).map(lambda seed: stories.random_problem(random.Random(seed)))


class TestStories(EveryLanguage):
    language = STORIES
    frozen = ("1", "9fe2c8c3e9f92dc4")
    test_problems_happen_at_random = False  # no two random stories are ever alike


def solutions(problem: StoriesProblem, n: int = 4000) -> list[str]:
    rng = random.Random(0)
    return [stories.worked_solution(problem, rng) for _ in range(n)]


def about(kind: str, **fields: object) -> StoriesProblem:
    """Ann has 14, Tom 20; then one thing happens, and Tom's account is asked for."""
    start = (Sentence("has", "ann", "coins", 14), Sentence("has", "tom", "coins", 20))
    sentence = Sentence(kind, "tom", **({"thing": "coins", "other": "ann"} | fields))
    return StoriesProblem((*start, sentence), "one", "coins", "tom", "ann")


def share(pattern: str, texts: list[str]) -> float:
    return sum(bool(re.search(pattern, text)) for text in texts) / len(texts)


def interpreted(prompt: str) -> int:
    """The answer from the prompt's words alone: another program than the language's own."""
    *sentences, question = re.split(r" [.?] ", prompt.removeprefix("<bos> "))[:-1]
    have: Counter[tuple[str, str]] = Counter()
    for sentence in sentences:
        match sentence.split():
            case [who, "has", "twice", "as", "many", thing, "as", other]:
                have[who, thing] = 2 * have[other, thing]
            case [who, "has", n, "more", thing, "than", other]:
                have[who, thing] = have[other, thing] + int(n)
            case [who, "has" | "finds", n, thing]:
                have[who, thing] += int(n)
            case [who, "loses", n, thing]:
                have[who, thing] -= int(n)
            case [who, "gives", other, n, thing]:
                have[who, thing] -= int(n)
                have[other, thing] += int(n)
            case [who, "buys", n, "bags", "of", m, thing]:
                have[who, thing] += int(n) * int(m)
            case [who, "sells", "half", "of", "the", thing]:
                have[who, thing] -= have[who, thing] / 2
            case unknown:
                raise AssertionError(unknown)
        assert thing not in question or min(have[name, thing] for name in NAMES) >= 0
    match question.split():
        case ["how", "many", thing, "has", who]:
            return have[who, thing]
        case ["how", "many", thing, "have", who, "and", other, "together"]:
            return have[who, thing] + have[other, thing]
        case ["how", "many", "more", thing, "has", who, "than", other]:
            return have[who, thing] - have[other, thing]
    raise AssertionError(question)


def test_prompt_and_answer() -> None:
    assert TALE.prompt == (
        "<bos> tom has 12 shells . ann has 5 more shells than tom . tom finds 4 hats . "
        "ann gives tom 6 shells . tom buys 2 bags of 8 shells . "
        "how many shells have tom and ann together ? <sol>"
    )
    assert TALE.answer == 45


@given(problems)
def test_answers_are_those_of_another_interpreter(problem: StoriesProblem) -> None:
    assert problem.answer == interpreted(problem.prompt)
    assert 0 <= problem.answer < 100


def test_answers_of_the_test_problems() -> None:
    test_problems = STORIES.test_problems(1024)
    assert [p.answer for p in test_problems] == [interpreted(p.prompt) for p in test_problems]
    # frozen: results on other machines and in other years are about the same problems
    first = "mia sells half of the stamps . tom loses 2 shells . how many shells has tom ? <sol>"
    assert test_problems[0].prompt.endswith(f"leo has 29 shells . mia has 14 shells . {first}")
    assert sum(p.answer for p in test_problems) == 31212


def test_names_of_people_and_things_are_no_part_of_the_story() -> None:
    new = {"tom": "eva", "ann": "ann", "": "", "shells": "coins", "hats": "apples"}
    sentences = tuple(
        Sentence(s.kind, new[s.who], new[s.thing], s.n, s.m, new[s.other]) for s in TALE.sentences
    )
    renamed = StoriesProblem(sentences, "together", "coins", "eva", "ann")
    assert renamed.prompt != TALE.prompt
    assert renamed.story == TALE.story
    assert StoriesProblem(TALE.sentences, "together", "shells", "ann", "tom").story != TALE.story


def test_random_problems_are_of_the_language_and_mixed() -> None:
    rng = random.Random(0)
    some = [stories.random_problem(rng) for _ in range(3000)]
    sentences = [sentence for p in some for sentence in p.sentences]
    assert {s.who for s in sentences} == set(NAMES)
    assert {s.thing for s in sentences} == set(THINGS)
    assert {len({s.who for s in p.sentences}) for p in some} <= {2, 3}
    kinds = Counter(s.kind for s in sentences)
    assert set(kinds) == {"has", "more", "twice", "finds", "loses", "gives", "buys", "sells"}
    assert min(kinds.values()) > 0.04 * len(sentences)
    asked = Counter(p.question for p in some)
    assert min(asked.values()) > 0.2 * len(some)
    assert 0.3 < sum(len(p.relevant) < len(p.sentences) for p in some) / len(some) < 0.8


def test_a_right_solution_keeps_the_accounts() -> None:
    right = (
        "tom = 12 ; ann : 12 + 5 = 17 ; ann : 17 - 6 = 11 ; tom : 12 + 6 = 18 ; "
        "2 * 8 = 16 ; tom : 18 + 16 = 34 ; together 34 + 11 = 45 ; so box 45 } <eos>"
    )
    assert right in solutions(TALE, 30_000)


@pytest.mark.parametrize(
    ("problem", "right", "mistaken", "rate"),
    [
        (about("more", n=3), "tom : 14 + 3 =", "tom = 3 ;", 0.5),
        (about("buys", n=3, m=4), "3 * 4 = 12 ; tom : 20 + 12 =", r"tom : 20 \+ 3 =", 0.5),
        (about("sells"), "tom : 20 / 2 =", "tom : 20 - 2 =", 0.4),
    ],
)
def test_misconceptions(problem: StoriesProblem, right: str, mistaken: str, rate: float) -> None:
    # until the first answer, that of a skipped or slipped step left out
    chains = [text.split(" box ")[0] for text in solutions(problem) if not text.startswith("easy")]
    found = [share(p, chains) for p in (re.escape(right), mistaken)]
    kept = 1 - 0.02 - 0.05  # neither skipped nor begun from a slipped 20 or 14
    assert found == pytest.approx([(1 - rate) * kept, rate * kept], abs=0.05)


def test_who_is_given_something_may_not_get_it() -> None:
    texts = [t.split(" box ")[0] for t in solutions(about("gives", n=4)) if "easy" not in t]
    given = [text for text in texts if re.search(r"tom : \d+ - 4 =", text)]
    assert share(r"ann : \d+ \+ 4 =", given) == pytest.approx(0.5, abs=0.04)


def test_other_things_are_counted_as_well() -> None:
    texts = [t.split(" box ")[0] for t in solutions(about("finds", n=4, thing="hats", other=""))]
    assert share(r"tom : \d+ \+ 4 =", texts) == pytest.approx(0.40 * 0.94 * 0.98, abs=0.03)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so box 45 } <eos>", 45),
        ("so box 45 } but wait , so box 12 } <eos>", 12),
        ("so box 45 } but wait , so box 12", 45),
        ("box 99 }", 99),
        ("box 100 }", None),
        ("box tom }", None),
    ],
)
def test_the_answer_is_the_last_whole_box(response: str, answer: int | None) -> None:
    assert STORIES.extract_answer(response) == answer
