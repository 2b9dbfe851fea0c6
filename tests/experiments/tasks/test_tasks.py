"""The problems of a recipe's task: prompts, references, and who grades."""

import pytest
from saved_outputs import write_lines

from ktae.experiments.recipe import Recipe
from ktae.experiments.tasks import task_of


def make_recipe(task, **changes):
    content = {"name": "x", "steps": 2, "rollout": {"prompts_per_step": 3}, "task": task}
    return Recipe.model_validate(content | changes)


def texts(rows):
    return [row.prompt[-1]["content"] for row in rows]


@pytest.fixture
def files(tmp_path):
    rows = [{"question": f"What is {a} + {a}?", "answer": f"so #### {2 * a}"} for a in range(5)]
    return {name: str(write_lines(tmp_path / f"{name}.jsonl", rows)) for name in ("train", "test")}


def test_problems_of_files(files):
    recipe = make_recipe({"source": "gsm8k", "instruction": "Be brief.", **files})
    rows = task_of(recipe).train_rows()
    assert len(rows) == 5
    assert rows[3].prompt == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 3 + 3?"},
    ]
    assert rows[3].answer == rows[3].reference == "6"
    assert len(task_of(recipe).held_out_rows()) == 5
    right, wrong = task_of(recipe).grade([r"\boxed{6}", "It is 7."], ["6", "6"], [True, True])
    assert (right.correct, wrong.correct) == (1, 0)


def test_held_out_problems_are_distinct_and_not_trained_on():
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    few = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    task = {"source": "reasoning-gym", "name": "chain_sum", "settings": few}
    recipe = make_recipe(task, steps=20, logging={"eval_problems": 40})
    trained = texts(task_of(recipe).train_rows())
    held_out = texts(task_of(recipe).held_out_rows())
    assert len(set(held_out)) == len(held_out) == 40
    assert not set(held_out) & set(trained)
    for row in task_of(recipe).held_out_rows()[::13]:
        (verdict,) = task_of(recipe).grade([row.answer], [row.reference], [True])
        assert verdict.correct == 1
