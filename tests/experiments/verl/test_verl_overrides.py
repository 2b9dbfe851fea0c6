"""A recipe as overrides of the installed verl's configuration."""

import json
from pathlib import Path

import pytest
from extras import installed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ktae.errors import InputError
from ktae.estimators import from_section
from ktae.experiments import recipe as recipes
from ktae.experiments.verl.overrides import arguments, compose
from ktae.experiments.verl.overrides import overrides as overrides_of
from ktae.trainers.verl import options

ROOT = Path(__file__).resolve().parents[3]
PAPER = sorted((ROOT / "recipes" / "paper").glob("*.yaml"))
MODEL = "a model/with a space"

needs_verl = pytest.mark.skipif(not installed("verl"), reason="needs the extra 'verl'")


def overrides(recipe, **more):
    return overrides_of(recipe, MODEL, Path("/o"), **more)


def composed(recipe, **given):
    return compose(overrides(recipe) | given)


def demo(**given):
    content = {"name": "x", "steps": 3} | given
    return recipes.Recipe.model_validate(content)


SIZES = {
    "1.5b": ("Qwen/Qwen2.5-Math-1.5B", "math12k", 12_000, 0.28),
    "7b": ("Qwen/Qwen2.5-Math-7B", "math-l3-5", 8_523, 0.24),
}
"""Of the paper: base model, training set and its size for the authors, DAPO's upper clip."""


@needs_verl
@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_paper_s_hyper_parameters(path):
    """The numbers are those of the paper's appendix, "Implementation Details", and what it leaves
    open those of the authors' scripts: 20 epochs of whole loader batches, of 2,048 prompts where
    DAPO filters groups, and a KL penalty in GRPO with the small model."""
    recipe = recipes.load(path)
    model, data, problems, clip_high = SIZES[recipe.name.rpartition("-")[2]]
    assert (recipe.name, recipe.model.path, recipe.task.source) == (path.stem, model, data)
    config = composed(recipe)
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert config.data.max_response_length == 3072 and config.data.max_prompt_length == 1024
    assert config.data.train_batch_size == 1024 and rollout.n == 16
    assert actor.optim.lr == 1e-6 and rollout.temperature == 1.0
    assert config.data.seed == rollout.seed == actor.data_loader_seed == 0
    assert config.trainer.n_gpus_per_node * config.trainer.nnodes == 8
    is_dapo = path.stem.startswith("dapo")
    loader_batch = config.data.train_batch_size * (2 if is_dapo else 1)
    assert config.trainer.total_training_steps == problems // loader_batch * 20
    assert actor.use_kl_loss == (not is_dapo and "1.5b" in path.stem)
    if actor.use_kl_loss:
        assert (actor.kl_loss_coef, actor.kl_loss_type) == (0.001, "low_var_kl")
    assert not config.algorithm.use_kl_in_reward
    assert actor.clip_ratio_low == 0.2
    assert actor.clip_ratio_high == (clip_high if is_dapo else 0.2)
    assert config.algorithm.filter_groups.enable == is_dapo
    assert actor.loss_agg_mode == "token-mean"
    if is_dapo:
        shaping = config.reward.reward_kwargs
        assert config.algorithm.filter_groups.metric == "acc"
        assert config.reward.reward_manager.name == "dapo" and shaping.max_resp_len == 3072
        assert shaping.overlong_buffer_cfg.len == 512
        assert shaping.overlong_buffer_cfg.penalty_factor == 1.0
    with_ktae = "ktae" in path.stem or "ablation" in path.stem
    assert config.algorithm.adv_estimator == ("ktae" if with_ktae else "grpo")
    assert config.trainer.v1.trainer_mode == ("ktae_sync" if with_ktae else "sync")
    if with_ktae:
        chosen = options.from_algorithm(config.algorithm)[0].estimator
        weights = {"h1": 1.0, "h2": 2.0, "h3": 1.0, "k1": 2.0, "b_len": 0.5}
        without = {"fisher": "h1", "ig": "h2", "tf": "h3"}.get(path.stem.split("-")[2])
        weights |= {without: 0.0} if without else {}
        assert {name: getattr(chosen, name) for name in weights} == weights


@needs_verl
def test_values_survive_the_command_line():
    section = {"estimator": "released", "transforms": [{"ignoring": [2, 7]}, {"scaled": 0.5}]}
    config = composed(demo(credit=section))
    template = config.actor_rollout_ref.model.custom_chat_template
    assert template == "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert config.actor_rollout_ref.model.path == "a model/with a space"
    assert list(config.actor_rollout_ref.actor.optim.betas) == [0.9, 0.999]
    assert options.from_algorithm(config.algorithm)[0].estimator == from_section(section)
    assert list(config.trainer.logger) == ["console", "file"]
    config = composed(demo(algorithm={"loss": "dr_grpo"}, rollout={"max_response_length": 77}))
    assert config.actor_rollout_ref.actor.loss_agg_mode == "seq-mean-token-sum-norm"
    assert config.actor_rollout_ref.actor.loss_scale_factor == 77


@needs_verl
def test_the_recipe_s_own_overrides_replace_ours():
    more = {
        "actor_rollout_ref": {"actor": {"clip_ratio_c": 10.0}},
        "actor_rollout_ref.rollout.n": 3,
        "algorithm.credit.h1": 4.0,
        "+new.key": None,
    }
    settings = overrides(demo(credit={"estimator": "ktae", "h1": 2}, verl={"overrides": more}))
    assert settings["actor_rollout_ref.actor.clip_ratio_c"] == 10.0
    assert settings["actor_rollout_ref.rollout.n"] == 3
    assert "+algorithm.credit.h1" not in settings and settings["algorithm.credit.h1"] == 4.0


@needs_verl
@pytest.mark.parametrize(
    ("key", "message"),
    [("trainer.nodes", r"trainer\.nodes"), ("+algorithm.credit.h9", r"h9")],
)
def test_unknown_keys(key, message):
    with pytest.raises(InputError, match=message):
        composed(demo(credit="paper"), **{key: 1})


OTHER_VALUES = {
    **{"name": "y", "steps": 4, "seed": 5, "task": {"source": "gsm8k"}, "credit": "trigrams"},
    **{"model.path": "elsewhere", "model.lora_rank": 4},
    **{"rollout.prompts_per_step": 16, "rollout.group_size": 4, "rollout.temperature": 0.5},
    **{"rollout.max_response_length": 70, "rollout.max_prompt_length": 99},
    **{"algorithm.loss": "dapo", "algorithm.scale_by_std": False, "algorithm.clip_low": 0.1},
    **{"algorithm.clip_high": 0.3, "algorithm.kl": 0.1, "algorithm.minibatches": 4},
    **{"algorithm.epochs": 2, "algorithm.overlong_buffer": 8, "algorithm.resampling_rounds": 1},
    **{"optimizer.learning_rate": 1e-3, "optimizer.beta1": 0.8},
    **{"optimizer.beta2": 0.8, "optimizer.weight_decay": 0.1, "optimizer.max_grad_norm": 2.0},
    **{"optimizer.warmup_steps": 7, "verl.mode": "colocate_async", "verl.nodes": 2},
    **{"verl.gpus_per_node": 2, "verl.rollout_engine": "sglang", "verl.tensor_parallel": 2},
    **{"verl.gpu_memory": 0.4, "verl.tokens_per_gpu": 99, "verl.validate_every": 3},
    **{"verl.overrides": {"trainer.balance_batch": False}, "logging.save_every": 3},
    **{"logging.keep_checkpoints": 5, "logging.eval_problems": 9},
    **{"logging.report_to": ["wandb"]},
}
"""Every key of a recipe that a run on verl reads, with a value that is not the default."""


def test_every_key_of_a_recipe_changes_what_verl_does(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("{name: x, steps: 3}")
    before = overrides(recipes.load(file))
    for key, value in OTHER_VALUES.items():
        changed = overrides(recipes.load(file, [f"{key}={json.dumps(value)}"]))
        assert (changed != before) == (key != "model.path"), key
    content = demo().model_dump(mode="json") | {"task": "demo"}
    keys = {key for key in recipes.dotted(content) if not key.startswith("trl.")}
    assert keys | {"verl.overrides"} == set(OTHER_VALUES) | {"algorithm.patience", "reward"}


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("algorithm", {"patience": 9}, "patience"),
        ("algorithm", {"minibatches": 16}, "minibatches"),
        ("verl", {"overrides": {"reward_model.x": 1}}, "reward_model.x"),
    ],
)
def test_what_verl_cannot_do_is_refused(section, value, message):
    overrides(demo(algorithm={"patience": 50}))  # the default is let through
    with pytest.raises(InputError, match=message):
        overrides(demo(**{section: value}))


def parsed(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    [override] = OverridesParser.create().parse_overrides(arguments({"key": value}))
    assert not override.is_sweep_override()
    return override.value()


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters) | st.text("\\\"'\n ~é.:/-+_=,${}[]()019eaEinfNtrulsTF")
texts = texts.filter(lambda text: "${" not in text and text != "???")  # OmegaConf's own
keys = st.from_regex(r"[a-z_][a-z0-9_.@-]*", fullmatch=True).filter(
    lambda key: key not in ("null", "true", "false", "nan", "inf")
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner))


LOOKS_LIKE = [
    *("/home/josé/run", "/runs/backup~1", "C:\\new", "1_000", "0x10", "-Inf", "True", "null", ""),
    *(" a", "f(x)", "[a]", "{a:b}", "k=v", "--x", "~", "$", '\\"', '"\\', "a\\nb", "a\nb"),
]


@needs_verl
@settings(max_examples=30)
@example([LOOKS_LIKE, dict.fromkeys("ab", LOOKS_LIKE)])
@given(values)
def test_any_value_comes_back(value):
    """Paths, what looks like another type, Hydra's grammar, and escapes, too."""
    assert repr(parsed(value)) == repr(value)
