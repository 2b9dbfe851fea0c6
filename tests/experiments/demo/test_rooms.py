"""The house with a key and a door: prompts, moves, agents, and episodes that a model plays."""

import random
from types import SimpleNamespace

import pytest

from ktae.experiments.demo import play
from ktae.experiments.demo.model import make_model, make_tokenizer
from ktae.experiments.demo.rooms import HOUSES, LONGEST, SHORTEST, Walk, extract_answer, walked

LINE = (
    "<bos> hall attic , attic cellar , attic study , study garden . key in cellar . door in garden"
)
PROMPT = f"{LINE} . <saw> hall , to attic , see nothing , have nothing <do>"
QUICKEST = ["go attic", "go cellar", "take key", "go attic", "go study", "go garden", "open door"]


def test_by_hand():
    walk = Walk(PROMPT)
    assert walk.house.prompt() == PROMPT and walk.house.turns() == len(QUICKEST)
    saw = [walk.act(move) for move in QUICKEST]
    assert saw[0] == "<saw> attic , to hall cellar study , see nothing , have nothing <do>"
    assert saw[1] == "<saw> cellar , to attic , see key , have nothing <do>"
    assert saw[2] == "<saw> cellar , to attic , see nothing , have key <do>"
    assert saw[5] == "<saw> garden , to study , see door , have key <do>"
    assert saw[6] == "<saw> open <eos>" and walk.solved


@pytest.mark.parametrize("move", ["go garden", "take key", "open door", "go", "", "key key key"])
def test_what_cannot_be_done_changes_nothing_and_takes_a_turn(move):
    walk = Walk(PROMPT)
    assert walk.act(move) == "<saw> hall , to attic , see nothing , have nothing <do>"
    assert (walk.room, walk.has_key, walk.left) == ("hall", False, LONGEST - 1)


def test_time_is_up_after_eight_turns():
    walk = Walk(PROMPT)
    assert [walk.act("take key") is None for _ in range(LONGEST)] == [False] * 7 + [True]
    assert not walk.solved


def test_houses_can_be_solved_and_prompts_say_all_of_them():
    problems = HOUSES.train_problems(200, seed=0)
    assert all(SHORTEST <= problem.story.turns() <= LONGEST for problem in problems)
    assert all(Walk(problem.prompt).house == problem.story for problem in problems)
    held_out = {problem.prompt for problem in HOUSES.test_problems(1024)}
    assert not {problem.prompt for problem in problems} & held_out
    words = {word for problem in problems for word in problem.prompt.split()}
    assert words <= set(HOUSES.vocabulary)


def test_the_agents_that_are_learnt_from_solve_some():
    rng = random.Random(0)
    texts = [walked(house, rng) for house in HOUSES.train_problems(300, seed=1)]
    assert max(len(text.split()) for text in texts) <= HOUSES.max_response_length
    solved = [HOUSES.is_correct(text, "open", finished=True) for text in texts]
    assert 0.2 < sum(solved) / len(solved) < 0.6
    assert extract_answer("open door <eos>") is None


def test_an_episode_is_what_the_house_says_to_the_model_s_moves():
    tokenizer, model = make_tokenizer(HOUSES), make_model(HOUSES, seed=0)
    prompts = [house.prompt for house in HOUSES.train_problems(5, seed=2)]
    settings = {"temperature": 1.0, "seed": 3, "max_tokens": HOUSES.max_response_length}
    played = play.play(HOUSES, model, tokenizer, prompts, **settings)
    assert played == play.play(HOUSES, model, tokenizer, prompts, **settings)
    for prompt, ids, mask in zip(prompts, played.token_ids, played.mask, strict=True):
        walk, rest = Walk(prompt), list(zip(ids, mask, strict=True))
        while rest:
            n = next((i for i, (_, written) in enumerate(rest) if not written), len(rest))
            saw = walk.act(tokenizer.decode([token for token, _ in rest[:n]]).removesuffix("<eos>"))
            expected = tokenizer(saw)["input_ids"] if saw else []
            assert rest[n : n + len(expected)] == [(token, 0) for token in expected]
            rest = rest[n + len(expected) :]
        assert walk.left == 0 or len(ids) >= HOUSES.max_response_length


def test_a_model_that_walks_the_quickest_way_solves_it(monkeypatch):
    tokenizer = make_tokenizer(HOUSES)
    moves = iter(QUICKEST)

    def generate(model, tokenizer, prompts, **_):
        ids = [tokenizer(f"{next(moves)} <eos>")["input_ids"] for _ in prompts]
        return SimpleNamespace(token_ids=ids, mean_entropy=0.5)

    monkeypatch.setattr(play, "generate", generate)
    played = play.play(HOUSES, None, tokenizer, [PROMPT], temperature=0.0, seed=0, max_tokens=100)
    assert played.solved == [True] and played.entropy == 0.5
    assert sum(played.mask[0]) == 3 * len(QUICKEST)
