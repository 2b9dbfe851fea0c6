"""Gradients against an independent one, mixtures against their definition, the whole on a model
that knows nothing yet."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chat import Chat
from typer.testing import CliRunner

from ktae import preset, token_advantages
from ktae import recipe as recipes
from ktae.data import tasks as data_tasks
from ktae.demo import SUMS
from ktae.demo.model import make_model, make_tokenizer
from ktae.errors import InputError
from ktae.estimators import Function
from ktae.evaluation.generation import Generations
from ktae.trainers.trl import tasks
from ktae_lab.align import measure as measuring
from ktae_lab.align import rollouts as drawing
from ktae_lab.align.gradients import Reference, cosine, policy_gradient, product
from ktae_lab.align.measure import Plan, measure, not_read, token_weights
from ktae_lab.align.rollouts import Rollouts, Sampler
from ktae_lab.align.summary import read, rows
from ktae_lab.cli import app

RECIPE = Path(__file__).parents[3] / "recipes/demo/grpo.yaml"
SMOLLM2 = Path(__file__).parents[3] / "recipes/smollm2/grpo.yaml"
SMALL = ["rollout.prompts_per_step=2", "rollout.group_size=4", "rollout.max_response_length=6"]
ESTIMATORS = {name: preset(name) for name in ("paper", "calibrated")}


@pytest.fixture(scope="module")
def model() -> Any:
    return make_model(SUMS, 0)


@pytest.fixture
def rollouts() -> Rollouts:
    rng = np.random.default_rng(0)
    lengths = torch.tensor([5, 1, 3, 5, 2, 4, 0, 5])
    mask = torch.arange(5) < lengths[:, None]
    return Rollouts(
        prompt_ids=[rng.integers(3, 70, n).tolist() for n in (4, 4, 4, 4, 7, 7, 7, 7)],
        ids_bt=torch.from_numpy(rng.integers(3, 70, (8, 5))) * mask,
        mask_bt=mask,
        reward_b=np.array([1, 0, 0, 1, np.nan, 1, 0, 0.0]),
        group_b=np.repeat([0, 1], 4),
    )


@pytest.mark.parametrize(("rows_at_once", "temperature"), [(1, 1.0), (3, 0.5), (8, 1.0)])
def test_gradient_is_that_of_each_rollout_alone(
    model: Any, rollouts: Rollouts, rows_at_once: int, temperature: float
) -> None:
    rollouts = rollouts._replace(temperature=temperature)
    weight_bt = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))
    got = policy_gradient(model, rollouts, weight_bt, rows_at_once=rows_at_once)
    model.zero_grad()
    for i, prompt in enumerate(rollouts.prompt_ids):
        ids = rollouts.ids_bt[i][rollouts.mask_bt[i]].tolist()
        if ids:
            logits = model(input_ids=torch.tensor([prompt + ids])).logits[0]
            for t, token in enumerate(ids):
                logprob = torch.log_softmax(logits[len(prompt) - 1 + t] / temperature, -1)[token]
                (weight_bt[i, t] * logprob).backward(retain_graph=True)
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)  # float32 sums
    assert all(p.grad is None for p in model.parameters())


def test_no_weights_no_gradient(model: Any, rollouts: Rollouts) -> None:
    assert not policy_gradient(model, rollouts, torch.zeros(8, 5), rows_at_once=4).any()


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_weights_are_the_losses_token_advantages(rollouts: Rollouts, loss: str) -> None:
    recipe = recipes.load(RECIPE, [*SMALL, f"algorithm.loss={loss}"])
    base_bt, credit = token_weights(rollouts, recipe, ESTIMATORS, None)
    known = ~np.isnan(rollouts.reward_b)
    rewards = np.nan_to_num(rollouts.reward_b)
    kept = (known & rollouts.mask_bt.any(dim=1).numpy()).nonzero()[0]
    expected = token_advantages(
        rewards[kept], rollouts.ids_bt[kept], rollouts.mask_bt[kept], rollouts.group_b[kept]
    )
    lengths = rollouts.mask_bt.sum(dim=1, keepdim=True)
    share = {"grpo": 1 / (8 * lengths), "dapo": 1 / lengths.sum(), "dr_grpo": torch.tensor(1 / 48)}
    scale = share[loss] if share[loss].ndim == 0 else share[loss][kept]
    # Empty rollouts have no place in GRPO's mean here; they do where the trainer counts them.
    first = kept < 4
    torch.testing.assert_close(
        (base_bt + credit["paper"])[kept][first], (expected * scale)[first], rtol=1e-5, atol=1e-7
    )


def test_overlong_shaping_is_in_the_advantages_and_not_in_the_verdicts(rollouts: Rollouts) -> None:
    recipe = recipes.load(RECIPE, SMALL)
    before, credit = token_weights(rollouts, recipe, ESTIMATORS, None)
    shaped = rollouts._replace(penalty_b=np.array([-0.5, 0, 0, 0, 0, 0, 0, 0]))
    after, same = token_weights(shaped, recipe, ESTIMATORS, None)
    assert not torch.allclose(before[:4], after[:4])
    assert torch.equal(before[4:], after[4:])
    assert all(torch.equal(credit[name], same[name]) for name in credit)


@pytest.mark.usefixtures("parity")
def test_drawn_rollouts_have_the_recipes_temperature_and_shaping(model: Any) -> None:
    shaping = ["rollout.temperature=0.7", "algorithm.overlong_buffer=4"]
    recipe = recipes.load(RECIPE, [*SMALL, *shaping])
    drawn = Sampler(model, make_tokenizer(SUMS), recipe, 2).draw(2)
    assert drawn.temperature == 0.7
    longest = recipe.rollout.max_response_length
    lengths = drawn.mask_bt.sum(dim=1).numpy()
    np.testing.assert_allclose(drawn.penalty_b, np.minimum(0, (longest - 4 - lengths) / 4))


def test_rollouts_of_a_task_that_grades_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scorer needs more than the answer: all columns of a problem go to the reward."""
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    recipe = recipes.load(SMOLLM2, ["rollout.group_size=2", "seed=3"])
    answers = [row.answer for row in data_tasks.train_rows(recipe)]

    def generate(_: Any, __: Any, prompts: list[str], **___: Any) -> Generations:
        texts = [answers[problems.index(text)] for text in prompts[:-1]] + ["none"]
        return Generations([[5]] * len(prompts), texts, [True] * len(prompts), 0.0)

    problems = [row.prompt[-1]["content"] for row in data_tasks.train_rows(recipe)]
    monkeypatch.setattr(drawing, "generate", generate)
    monkeypatch.setattr(drawing, "encode", lambda _, prompts: [[1]] * len(prompts))
    drawn = Sampler(None, Chat(), recipe, 8).draw(3)
    assert drawn.reward_b.tolist() == [1, 1, 1, 1, 1, 0]


def test_adams_metric() -> None:
    reference = Reference(torch.ones(4, 2), torch.tensor([4.0, 0.25]))
    torch.testing.assert_close(reference.gradient, torch.tensor([4.0, 4.0]))
    metric = reference.metrics()["adam"]
    torch.testing.assert_close(metric, torch.tensor([0.5, 2.0]))
    assert reference.metrics()["raw"] is None


@pytest.mark.parametrize("met", [0.0, 1e-25, 1e-12, 1e-5])
def test_adams_metric_is_of_what_the_reference_met(met: float) -> None:
    """64 of 100,000 parameters have a gradient in the batch, and hardly one in the reference."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(100_000, generator=generator)
    # Seventeen batches, each as much noise as gradient; the last one is no part of the reference.
    *batches, batch = truth + torch.randn(17, 100_000, generator=generator)
    seen = torch.stack(batches)

    def cosines() -> list[float]:
        reference = Reference(seen, seen.square().mean(dim=0))
        return [cosine(batch, reference.gradient, own) for own in reference.metrics().values()]

    before = cosines()
    assert min(before) > 0.6
    seen[:, :64] *= met
    assert cosines() == pytest.approx(before, abs=1e-3)


def test_adams_metric_leaves_out_no_more_than_its_share() -> None:
    """Ten batches over four decades: the parameters that are left out made nothing of the norm."""
    gradients = torch.randn(10, 10_000, generator=torch.Generator().manual_seed(0))
    gradients *= torch.logspace(-4, 0, 10_000)
    v = gradients.square().mean(dim=0)
    metric = Reference(gradients, v).metrics()["adam"]
    assert metric is not None and 0 < int((metric == 0).sum()) < 6_000
    for gradient in gradients:
        adams = product(gradient, gradient, 1 / (v.sqrt() + 1e-8))
        assert 0.99 * adams < product(gradient, gradient, metric) < adams


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward that a model which knows nothing earns half of the time."""

    def reward(recipe: Any, tokenizer: Any) -> Callable[..., list[float | None]]:
        return lambda completion_ids, **_: [float(sum(ids) % 2) for ids in completion_ids]

    monkeypatch.setattr(tasks, "reward_function", reward)


@pytest.mark.usefixtures("parity")
def test_measure(model: Any, tmp_path: Path) -> None:
    recipe = recipes.load(RECIPE, SMALL)
    seen: list[tuple[str, int, int]] = []
    measured = measure(
        model, make_tokenizer(SUMS), recipe, ESTIMATORS, Plan(3, 8), lambda *x: seen.append(x), "m"
    )
    assert seen[-1] == ("batches", 3, 3) and ("reference", 4, 4) in seen
    assert 0.1 < measured.about["accuracy"][0] < 0.9
    assert len(measured.products) == 2 * 2 * 3
    assert len(measured.references) == 2 * 4, "four batches make a reference of four blocks"
    measured.write(tmp_path)
    table = rows(read(tmp_path), "m", [0.5])
    assert len(table) == 2 * (1 + 2 * 3)
    for row in table:
        assert row.cosine.low <= row.cosine.value <= row.cosine.high
        assert row.difference.low <= row.difference.value <= row.difference.high
    assert [row.difference.value for row in table if row.estimator == "grpo"] == [0, 0]
    for what in ("tr", "br"):
        parts = measured.products.filter(regex=f"{what}_").sum(axis=1)
        np.testing.assert_allclose(parts, measured.products[what], rtol=1e-4, atol=1e-9)
    every = measured.references.groupby("metric").sum().filter(like="rr_").sum(axis=1)
    of_products = measured.products.groupby("metric")["rr"].first()
    np.testing.assert_allclose(every.sort_index(), of_products.sort_index(), rtol=1e-4)


def test_a_frozen_policy_is_an_error_before_anything_is_sampled(model: Any) -> None:
    frozen = copy.deepcopy(model).requires_grad_(False)
    with pytest.raises(InputError, match="no parameter that takes a gradient, as the checkpoint"):
        measure(frozen, None, recipes.load(RECIPE, SMALL), ESTIMATORS, Plan(2, 4), lambda *_: None)


def test_what_the_gradients_leave_out_of_the_recipe() -> None:
    assert not_read(recipes.load(RECIPE)) == []
    more = ["trl.top_entropy=0.2", "algorithm.kl=0.1", "model.lora_rank=4"]
    more += ["trl.entropy_coef=-0.01"]
    assert not_read(recipes.load(RECIPE, [*more, "algorithm.resampling_rounds=1"])) == [
        "algorithm.kl",
        "algorithm.resampling_rounds",
        "model.lora_rank",
        "trl.top_entropy",
        "trl.entropy_coef",
    ]


def test_accuracy_is_of_what_could_be_graded(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def reward(recipe: Any, tokenizer: Any) -> Callable[..., list[float | None]]:
        return lambda completion_ids, **_: [1, 0, None, None] * (len(completion_ids) // 4)

    monkeypatch.setattr(tasks, "reward_function", reward)
    recipe = recipes.load(RECIPE, SMALL)
    measured = measure(model, make_tokenizer(SUMS), recipe, ESTIMATORS, Plan(2, 4), lambda *_: None)
    assert measured.about["accuracy"][0] == 0.5


def test_too_few_prompts_names_what_to_lower(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    every = tasks.train_set
    monkeypatch.setattr(tasks, "train_set", lambda recipe: every(recipe).select(range(5)))
    with pytest.raises(InputError, match=r"8 prompts are .* are 5; lower --reference-prompts or"):
        measure(
            model, make_tokenizer(SUMS), recipes.load(RECIPE, SMALL), ESTIMATORS, Plan(2, 4),
            lambda *_: None,
        )  # fmt: skip


@pytest.mark.usefixtures("parity")
def test_the_references_own_rollouts_point_to_it(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Advantages without a standard deviation, over a constant: the reference but for a factor."""
    overrides = ["algorithm.loss=dr_grpo", "algorithm.scale_by_std=false"]
    recipe = recipes.load(RECIPE, [*SMALL, *overrides])

    class Same(measuring.Sampler):
        once: Rollouts | None = None

        def draw(self, n_prompts: int) -> Rollouts:
            Same.once = Same.once or super().draw(n_prompts)
            return Same.once

    monkeypatch.setattr(measuring, "Sampler", Same)
    measured = measure(model, make_tokenizer(SUMS), recipe, ESTIMATORS, Plan(2, 4), lambda *_: None)
    np.testing.assert_allclose(measured.about["reliability"], 1, atol=1e-6)
    for row in rows(measured, ""):
        if row.estimator == "grpo":
            assert row.cosine.value == pytest.approx(1, abs=1e-6)
        elif (row.estimator, row.mixture) == ("paper", "alone"):
            assert row.cosine.value < 0.99


def test_nothing_to_learn_is_an_error(model: Any) -> None:
    recipe = recipes.load(RECIPE, SMALL)
    with pytest.raises(InputError, match="the reference gradient is 0"):
        measure(model, make_tokenizer(SUMS), recipe, ESTIMATORS, Plan(2, 4), lambda *_: None)


@pytest.mark.usefixtures("parity")
def test_command(model: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    make_tokenizer(SUMS).save_pretrained(folder)
    command = ["align", str(RECIPE), *SMALL, f"model.path={folder}", "--batches", "2"]
    command += ["--reference-prompts", "8", "-e", "trigrams", "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "trigrams, as trained" in done.output
    assert (tmp_path / "out/align.svg").exists()
    assert read(tmp_path / "out").products["estimator"].unique().tolist() == ["trigrams"]
    with pytest.raises(InputError, match="holds a measurement already"):
        CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-e", "paper", "-e", "paper"], "--estimator names paper twice"),
        (["-e", "x={estimator: [}"], r"--estimator x=\{estimator: \[\} is not YAML"),
        (["--output", "/dev/null/out"], "cannot make folder /dev/null/out: Not a directory"),
    ],
)
def test_bad_input(options: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["align", str(RECIPE), *options], catch_exceptions=False)


def first_token(token_ids: Any, mask: Any, correct: Any, groups: Any) -> Any:
    """1 for the first token of correct rollouts, -1 for that of incorrect ones."""
    return np.where(np.arange(token_ids.shape[1]) == 0, np.where(correct, 1.0, -1.0)[:, None], 0)


def test_a_function_is_weighted_as_any_estimator(rollouts: Rollouts) -> None:
    recipe = recipes.load(RECIPE, [*SMALL, "algorithm.loss=dapo"])
    _, credit = token_weights(rollouts, recipe, {"own": Function(first_token)}, None)
    n_tokens = float(rollouts.mask_bt.sum())
    expected = torch.zeros(8, 5)
    # Rollout 4 nobody could grade, 6 has no token.
    expected[[0, 3, 5], 0], expected[[1, 2, 7], 0] = 1 / n_tokens, -1 / n_tokens
    torch.testing.assert_close(credit["own"], expected)


@pytest.mark.usefixtures("parity")
def test_measure_a_function_beside_a_preset(model: Any) -> None:
    recipe = recipes.load(RECIPE, SMALL)
    estimators = {"own": first_token, "paper": "paper"}
    tokenizer = make_tokenizer(SUMS)
    measured = measure(model, tokenizer, recipe, estimators, Plan(2, 4), lambda *_: None)
    of_function = measured.products[measured.products["estimator"] == "own"]
    assert len(of_function) == 4 and (of_function["tt"] > 0).all()
    with pytest.raises(InputError, match=r"estimators\['bad'\] is 3; expected an estimator of"):
        measure(None, None, recipe, {"bad": 3}, Plan(2, 4), lambda *_: None)  # type: ignore[dict-item]
