"""What holds for every demo language: a test class of one inherits from `EveryLanguage`."""

import hashlib
import random

import pytest

from ktae.errors import InputError
from ktae.experiments.demo import Language
from ktae.experiments.demo.language import HELD_OUT, SPECIAL_TOKENS

SEEDS = range(60)


def spoken(language: Language) -> str:
    """A digest of what a language says for some seeds, and of its words: of what a base model
    learns of it."""
    rng = random.Random("spoken")
    problems = [*language.test_problems(64), *language.train_problems(512, seed=3)]
    lines = [" ".join(language.vocabulary), str(language.max_response_length)]
    for problem in problems:
        lines += [problem.prompt, str(problem.answer), language.worked_solution(problem, rng)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


class EveryLanguage:
    language: Language

    frozen: tuple[str, str]
    """The version, and what is `spoken` in it."""

    def test_another_version_says_other_things_and_only_another_version_does(self) -> None:
        version, digest = self.frozen
        found = spoken(self.language)
        if self.language.version == version:
            assert found == digest, (
                f"the language {self.language.name} says other things than its version {version} "
                "did, and base models are kept by the version: raise it, and freeze it here"
            )
        else:
            pytest.fail(f"freeze the new version here: {(self.language.version, found)}")

    def test_test_problems_are_distinct_and_always_the_same(self) -> None:
        problems = self.language.test_problems(HELD_OUT)
        assert len({p.story for p in problems}) == len(problems) == HELD_OUT >= 512
        assert self.language.test_problems() == problems[:512]
        assert self.language.test_problems(3) == problems[:3]
        for n in (0, HELD_OUT + 1):
            with pytest.raises(InputError, match=f"{n} test problems .*; expected 1 to 1024"):
                self.language.test_problems(n)

    def test_no_training_problem_is_a_test_problem(self) -> None:
        held_out = {p.story for p in self.language.test_problems(HELD_OUT)}
        rng = random.Random(0)
        anywhere = [self.language.random_problem(rng) for _ in range(8000)]
        assert any(p.story in held_out for p in anywhere), "so it takes care to avoid them"
        trained_on = self.language.train_problems(8000, seed=0)
        assert len(trained_on) == 8000
        assert not any(p.story in held_out for p in trained_on)

    def test_fewer_training_problems_are_the_first_ones_and_other_seeds_give_others(self) -> None:
        few = self.language.train_problems(20, seed=1)
        assert few == self.language.train_problems(30, seed=1)[:20]
        assert few != self.language.train_problems(20, seed=2)

    def test_solutions_are_of_the_vocabulary_and_end(self) -> None:
        vocabulary = self.language.vocabulary
        assert len(set(vocabulary)) == len(vocabulary) <= 180
        assert vocabulary[:3] == SPECIAL_TOKENS
        rng = random.Random(0)
        words: set[str] = set()
        for problem in self.language.train_problems(3000, seed=0):
            solution = self.language.worked_solution(problem, rng).split()
            assert solution.index("<eos>") == len(solution) - 1
            words.update(solution)
            words.update(problem.prompt.split())
        assert words == set(vocabulary) - {"<pad>"}

    def test_worked_solutions_are_noisy_but_not_hopeless(self) -> None:
        rng = random.Random(0)
        problems = self.language.train_problems(2000, seed=0)
        solutions = [self.language.worked_solution(p, rng) for p in problems]
        fit = [len(text.split()) <= self.language.max_response_length for text in solutions]
        right = [
            self.language.is_correct(text, p.answer, finished)
            for p, text, finished in zip(problems, solutions, fit, strict=True)
        ]
        assert 0.6 < sum(fit) / len(fit) < 0.95
        assert 0.25 < sum(right) / len(right) < 0.6

    def test_the_last_answer_counts_and_only_if_finished(self) -> None:
        """The answers of whole worked solutions, written one after the other."""
        language = self.language
        for seed in SEEDS:
            rng = random.Random(seed)
            problem = language.random_problem(rng)
            first, last = (language.worked_solution(problem, rng) for _ in range(2))
            both = f"{first.removesuffix('<eos>')}{last}"
            found = language.extract_answer(last)
            right = found == problem.answer
            assert language.extract_answer(both) == found is not None
            assert language.is_correct(both, problem.answer, finished=True) == right
            assert language.is_correct(both, str(problem.answer), finished=True) == right
            assert not language.is_correct(both, problem.answer, finished=False)

    def test_every_word_is_one_token(self) -> None:
        from ktae.experiments.demo.model import make_tokenizer

        tokenizer, n = make_tokenizer(self.language), len(self.language.vocabulary)
        assert tokenizer(list(self.language.vocabulary))["input_ids"] == [[i] for i in range(n)]
        assert len(tokenizer) == n
        rng = random.Random(0)
        for problem in self.language.train_problems(1000, seed=0):
            text = f"{problem.prompt} {self.language.worked_solution(problem, rng)}"
            ids = tokenizer(text)["input_ids"]
            assert len(ids) == len(text.split())
            assert tokenizer.decode(ids) == text
