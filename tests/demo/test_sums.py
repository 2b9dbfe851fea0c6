import random
import re
from collections import Counter

import pytest

from ktae.demo import SUMS, sums
from ktae.demo.sums import DOUBLE, FLIP, TRIPLE, Operation, Sum, SumsProblem

TRIPLING = SumsProblem("tom", 7, (Operation("gets", 5), Operation("triples")))


def solutions(problem: SumsProblem, n: int = 4000) -> list[str]:
    rng = random.Random(0)
    return [sums.worked_solution(problem, rng) for _ in range(n)]


def share(pattern: str, texts: list[str]) -> float:
    return sum(bool(re.search(pattern, text)) for text in texts) / len(texts)


def first_chain(text: str) -> str:
    return re.split(r" (?:so|the answer is|total) box ", text)[0]


def test_prompt_and_answer() -> None:
    assert TRIPLING.prompt == "<bos> tom has 7 . gets 5 . triples . how many ? <sol>"
    assert TRIPLING.answer == 16  # (7 + 5) * 3 = 36


@pytest.mark.parametrize(
    ("operation", "result", "written"),
    [
        (Operation("gets", 9), 3, "14 + 9 = 3"),
        (Operation("finds", 1), 15, "14 + 1 = 15"),
        (Operation("loses", 9), 5, "14 - 9 = 5"),
        (Operation("gives", 4), 10, "14 - 4 = 10"),
        (Operation("doubles"), 8, "14 * 2 = 8"),
        (Operation("triples"), 2, "14 * 3 = 2"),
        (Operation("flips"), 6, "0 - 14 = 6"),
    ],
)
def test_what_each_verb_means(operation: Operation, result: int, written: str) -> None:
    assert operation.sum.result(14) == result
    assert operation.sum.written(14, result) == written


def test_results_stay_in_0_to_19() -> None:
    sums = [Sum("+", 9), Sum("-", 9), DOUBLE, TRIPLE, FLIP]
    assert {s.result(value) for s in sums for value in range(20)} == set(range(20))


def test_random_problems_are_of_the_language_and_evenly_mixed() -> None:
    rng = random.Random(0)
    problems = [sums.random_problem(rng) for _ in range(6000)]
    assert {p.name for p in problems} == set(sums.NAMES)
    assert {p.start for p in problems} == set(range(20))
    assert {len(p.operations) for p in problems} == {2, 3, 4}
    operations = [operation for p in problems for operation in p.operations]
    kinds = Counter(operation.sum.sign + str(operation.sum.n % 10) for operation in operations)
    n = len(operations)
    assert sum(kinds[f"+{i}"] for i in range(1, 10)) / n == pytest.approx(0.2, abs=0.02)
    assert sum(kinds[f"-{i}"] for i in range(1, 10)) / n == pytest.approx(0.2, abs=0.02)
    assert [kinds[k] / n for k in ("*2", "*3", "0-0")] == pytest.approx([0.2] * 3, abs=0.02)
    with_number = {operation.verb for operation in operations if operation.n}
    assert with_number == {"gets", "finds", "loses", "gives"}


def test_test_problems_are_fixed() -> None:
    problems = SUMS.test_problems()
    assert len(problems) == 512
    assert problems[:3] == SUMS.test_problems(3)
    # frozen: results on other machines and in other years are about the same problems
    assert problems[0].prompt == "<bos> ann has 15 . flips . triples . how many ? <sol>"
    assert sum(p.answer for p in problems) == 4967


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so box 7 } <eos>", 7),
        ("so box 7 } but wait , total box 12 } <eos>", 12),
        ("so box 7 } but wait , total box 12", 7),
        ("so box 7 } but wait , total box } <eos>", 7),
        ("box 19 }", 19),
        ("box 20 }", None),
        ("box 7 8 }", None),
        ("box }", None),
        ("box", None),
        ("lunchbox 7 }", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_whole_box(response: str, answer: int | None) -> None:
    assert sums.extract_answer(response) == answer


def test_correct_is_right_and_finished() -> None:
    assert SUMS.is_correct("so box 7 }", 7, finished=True)
    assert not SUMS.is_correct("so box 7 }", 7, finished=False)
    assert not SUMS.is_correct("so box 7 } so box 8 }", 7, finished=True)
    assert not SUMS.is_correct("easy !", 7, finished=True)


def test_solutions_are_of_the_vocabulary_and_end() -> None:
    assert len(set(sums.VOCABULARY)) == len(sums.VOCABULARY) == 74
    rng = random.Random(0)
    words: set[str] = set()
    for problem in SUMS.train_problems(2000, seed=0):
        solution = sums.worked_solution(problem, rng).split()
        assert solution.index("<eos>") == len(solution) - 1
        words.update(solution)
        words.update(problem.prompt.split())
    assert words == set(sums.VOCABULARY) - {"<pad>"}


def test_guesses() -> None:
    texts = solutions(TRIPLING, 20_000)
    guesses = [text for text in texts if text.startswith("easy")]
    assert len(guesses) / len(texts) == pytest.approx(0.08, abs=0.01)
    assert all(re.match(r"easy [!,.] (just |maybe )?box \d+ }", text) for text in guesses)
    # at first: lucky .30; from a chain .35, of which about a fourth is right; random .35 / 20
    right = sum(text.split("box ")[1].startswith("16 }") for text in guesses) / len(guesses)
    assert right == pytest.approx(0.30 + 0.35 * 0.25 + 0.35 / 20, abs=0.05)


def test_openers() -> None:
    chains = [text for text in solutions(TRIPLING, 10_000) if not text.startswith("easy")]
    opener = r"^(let me think \.|(ok|well|hmm|now|so) ,)"
    assert share(opener, chains) == pytest.approx(0.85, abs=0.04)
    patient = share(r"^let me think \.", chains)
    assert patient == pytest.approx(2 * share("^ok ,", chains), abs=0.04)
    # another one with .30; "let me think ." is two of the seven and never filler
    opened = [text for text in chains if re.match(opener, text)]
    assert share(f"{opener} let me think", opened) == pytest.approx(0.30 * 2 / 7, abs=0.015)


def test_filler() -> None:
    texts = solutions(SumsProblem("tom", 7, (Operation("finds", 4), Operation("finds", 4))), 10_000)
    between = [m[1] for t in texts if (m := re.match(r"[^;}]*; ([^;}]*?)\d+ [-+] \d+ =", t))]
    between = [words for words in between if "again" not in words]
    filler = r"(?:now |then |next , |so we have |hmm , |well , )"
    assert all(re.fullmatch(f"{filler}*", words) for words in between)
    at_least = [share(f"^{filler}{{{n}}}", between) for n in (1, 2, 3)]
    assert at_least == pytest.approx([0.25, 0.25**2, 0.25**3], abs=0.015)
    n_each = Counter(words for words in between if re.fullmatch(filler, words))
    assert max(n_each.values()) < 1.4 * min(n_each.values())


@pytest.mark.parametrize(
    ("operation", "mistaken", "rate"),
    [
        # believed with the rate, not misread (.95); the other belief misread into it
        (Operation("triples"), r"7 \* 2", 0.80 * 0.95 + 0.20 * 0.05),
        (Operation("gives", 4), r"7 \+ 4", 0.75 * 0.95 + 0.25 * 0.05),
        (Operation("doubles"), r"7 \* 3", 0.05),
        (Operation("flips"), r"7 \* 2", 0.05),
        (Operation("gets", 4), "7 - 4", 0.05),
        (Operation("loses", 4), r"7 \+ 4", 0.05),
    ],
)
def test_misconceptions_and_misreadings(operation: Operation, mistaken: str, rate: float) -> None:
    texts = solutions(SumsProblem("tom", 7, (operation,)))
    steps = [m[1] for text in texts if (m := re.search(r"^[^}]*?((?:0 - 7|7 .) ?\d*) =", text))]
    assert share(f"^{mistaken}", steps) == pytest.approx(rate, abs=0.03)


def test_skips_slips_and_second_thoughts() -> None:
    texts = solutions(SumsProblem("tom", 7, (Operation("finds", 4),)), 10_000)
    chains = [first_chain(text) for text in texts if not text.startswith("easy")]
    assert share("=", chains) == pytest.approx(0.97, abs=0.01)
    steps = [chain for chain in chains if "=" in chain]
    first_results = [int(re.search(r"= (\d+)", step)[1]) for step in steps]
    slipped = [step for step, r in zip(steps, first_results, strict=True) if r not in (11, 3)]
    assert len(slipped) / len(steps) == pytest.approx(0.06, abs=0.01)
    assert set(first_results) == {(r + s) % 20 for r in (11, 3) for s in (0, *sums.SLIPS)}
    right = [step for step, r in zip(steps, first_results, strict=True) if r == 11]
    assert share("wait", slipped) == pytest.approx(0.50, abs=0.07)
    assert share("wait", right) == pytest.approx(0.06, abs=0.01)
    assert share(r"wait , that is wrong \. \d", slipped) == pytest.approx(0.25, abs=0.06)
    assert share("again", steps) == pytest.approx(0.08, abs=0.01)


def test_a_redo_is_another_attempt_with_the_same_beliefs() -> None:
    texts = solutions(SumsProblem("tom", 7, (Operation("triples"),)), 10_000)
    redo = [m[1] for t in texts if (m := re.match(r"[^;}]*wait , (?:[a-z ]*\. )?(7 . \d) =", t))]
    assert len(redo) > 1000
    assert share(r"\* 2", redo) == pytest.approx(0.80 * 0.95 + 0.20 * 0.05, abs=0.03)


def test_after_the_box() -> None:
    texts = solutions(TRIPLING, 10_000)
    doubt = r"} (?:but wait ,|let me check \.|hmm , again \.) "
    doubts = [len(re.findall(doubt, text)) for text in texts]
    # one with .35; a second unless the first was a ramble
    assert sum(n > 0 for n in doubts) / len(texts) == pytest.approx(0.35, abs=0.02)
    assert sum(n > 1 for n in doubts) / len(texts) == pytest.approx(0.35**2 * 0.88, abs=0.02)
    assert max(doubts) == 2
    rambles = [text for text in texts if not text.endswith("} <eos>")]
    assert len(rambles) / sum(doubts) == pytest.approx(0.12, abs=0.02)
    # 8 to 30 fillers of 1 to 3 words, with 11 / 6 words on average
    lengths = [len(re.split(doubt, text)[-1].split()) - 1 for text in rambles]
    assert min(lengths) >= 8
    assert max(lengths) <= 90
    assert sum(lengths) / len(lengths) == pytest.approx(19 * 11 / 6, abs=2)


def test_checking_is_twice_as_careless() -> None:
    texts = solutions(SumsProblem("tom", 7, (Operation("finds", 4),)), 20_000)
    checks = [
        check
        for text in texts
        for check in re.findall(r"} (?:but wait ,|let me check \.|hmm , again \.) ([^}]*)}", text)
    ]
    steps = [m for check in checks if (m := re.search(r"7 ([-+]) 4 = (\d+)", check))]
    assert 1 - len(steps) / len(checks) == pytest.approx(0.06, abs=0.01)
    assert sum(m[1] == "-" for m in steps) / len(steps) == pytest.approx(0.10, abs=0.015)
    slipped = sum(m[2] != {"+": "11", "-": "3"}[m[1]] for m in steps)
    assert slipped / len(steps) == pytest.approx(0.12, abs=0.015)
