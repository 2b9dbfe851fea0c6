from pathlib import Path

import numpy as np
import pytest
import yaml
from second_language import MORE, offer

from ktae import InputError, recipe
from ktae.estimators import (
    KTAE,
    Centred,
    ConflictTokens,
    Decayed,
    Ignoring,
    RandomPlaces,
    Tempo,
    preset,
)
from ktae.runs import RunFolder

MINIMAL = {"name": "r", "steps": 3}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "recipe.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


def test_defaults_and_sections(write):
    loaded = recipe.load(write(MINIMAL | {"credit": {"estimator": "released", "h3": 0}}))
    assert loaded.rollout.group_size == 16
    assert loaded.credit == preset("released", h3=0.0)
    assert recipe.load(write(MINIMAL)).credit is None


def test_dump_is_the_same_recipe(write):
    section = {"estimator": "ktae", "h1": 0, "transforms": [{"ignoring": [3, 1]}, "centred"]}
    loaded = recipe.load(write(MINIMAL | {"credit": section}))
    assert loaded.credit == Centred(Ignoring(KTAE(h1=0), (1, 3)))
    assert recipe.load(write(recipe.dump(loaded))) == loaded


def test_numbers_of_numpy_are_dumped(write):
    credit = Decayed(RandomPlaces(KTAE(h3=np.float32(0)), np.int64(3)), np.int64(5))
    loaded = recipe.Recipe(**MINIMAL, credit=credit)
    assert recipe.load(write(recipe.dump(loaded))) == loaded


def test_overrides_take_yaml_values_and_make_sections(write):
    overrides = ["seed=4", "credit.h3=0", "credit.eps=1e-3", "rollout.temperature=0.5"]
    loaded = recipe.load(write(MINIMAL | {"credit": "paper"}), overrides)
    assert (loaded.seed, loaded.rollout.temperature) == (4, 0.5)
    assert loaded.credit == KTAE(h3=0.0, eps=1e-3)
    assert recipe.load(write(MINIMAL | {"credit": "paper"}), ["credit=null"]).credit is None
    loaded = recipe.load(write(MINIMAL), ["credit.estimator=trigrams", "credit.transforms=centred"])
    assert loaded.credit == Centred(preset("trigrams"))


def test_changes_are_found_in_the_keys_of_either_recipe(write):
    """A section that is null has none of the keys of a mapping; either may have more."""

    def changes(there, here):
        return recipe.changes(*(recipe.load(write(MINIMAL | keys)) for keys in (there, here)))

    assert changes({"seed": 1}, {"seed": 1}) == []
    assert changes({"seed": 0}, {"seed": 7}) == ["seed (0 there, 7 here)"]
    assert changes({"credit": "paper"}, {"credit": None}) == ["credit ('paper' there, None here)"]
    odd = {"estimator": "ktae", "h3": 0.5}
    assert changes({"credit": odd}, {"credit": "paper"}) == [
        "credit (None there, 'paper' here)",
        "credit.estimator ('ktae' there, None here)",
        "credit.h3 (0.5 there, None here)",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MINIMAL | {"sed": 1}, "unknown key 'sed'; did you mean 'seed'?"),
        (MINIMAL | {"rollout": {"group_sise": 8}}, "'rollout.group_sise'; did you mean 'group_siz"),
        (MINIMAL | {"credit": {"estimator": "paper", "qqq": 8}}, "credit: estimator paper has no"),
        (
            MINIMAL | {"credit": {"estimator": "paper", "transforms": 5}},
            "transforms is 5; expected",
        ),
        (MINIMAL | {"credit": "papre"}, "no estimator 'papre'; did you mean 'paper'?"),
        (
            MINIMAL | {"credit": {"estimator": "ktae", "h1": -1}},
            "credit: h1 is -1; expected a number from 0 to 1e+30",
        ),
        (MINIMAL | {"steps": "many"}, "steps is 'many'; expected a valid integer"),
        (MINIMAL | {"steps": 0}, "steps is 0; expected greater than 0"),
        (MINIMAL | {"name": "../x"}, "name is '../x'; "),
        (MINIMAL | {"model": "demo"}, "model is 'demo'; expected settings, such as {key: value}"),
        (MINIMAL | {"name": "a b"}, "name is 'a b'; expected letters, digits, '.', '_' and '-'"),
        (
            MINIMAL | {"demo": {"language": "latin"}},
            "demo.language: no demo language 'latin'; expected one of sums",
        ),
        (MINIMAL | {"demo": {"language": ["sums"]}}, "demo.language is ['sums']; expected a valid"),
        (MINIMAL | {"logging": {"eval_problems": 5000}}, "logging.eval_problems is 5000; expected"),
        ("name: r\nsteps: 2020-13-45", "is not YAML"),
        (MINIMAL | {"algorithm": {"minibatches": 3}}, "expected a divisor of the 128 rollouts"),
        ({"steps": 1}, "name is missing"),
        ([1], "holds a list; expected a mapping"),
        ("", "holds nothing; expected a mapping"),
        ("a: [", "is not YAML"),
        ("a: !!python/object/apply:os.system [echo owned]", "is not YAML"),
        ("a: !!timestamp x", "is not YAML"),
        ("a: !!bool x", "is not YAML"),
        ("a: &a [*a]", "more than 100,000 values, or lists and mappings in each other"),
        ("a: " + "[" * 101 + "]" * 101, "in each other more than 100 deep"),
        (
            "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 8}]\n" for i in range(1, 20)),
            "more than 100,000 values",
        ),
        (
            MINIMAL | {"verl": {"overrides": {"x": b"\x80"}}},
            "holds b'\\x80', a bytes; expected text",
        ),
        (MINIMAL | {"verl": {"overrides": {"x": float("nan")}}}, "holds nan; expected finite"),
        ("name: 2001-01-01\nsteps: 1", "a date; expected text (in quotes, if it looks like"),
        ('name: "\\uD800"\nsteps: 1', "half a surrogate pair"),
        ("name: r\nsteps: 1\nname: s", "key 'name' is given twice, in line 1 and in line 3"),
        (
            "name: r\nsteps: 1\nrollout:\n  group_size: 4\n  'group_size': 8",
            "key 'group_size' is given twice, in line 4 and in line 5",
        ),
        ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", "key '<<' is given twice, in line 2 and in line 2"),
        (MINIMAL | {"name": "n" * 201}, "nnnnn... has 201 characters; expected at most 200"),
    ],
)
def test_bad_recipes_say_what_and_where(write, content, message):
    path = write(content)
    with pytest.raises(InputError) as error:
        recipe.load(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_language_of_another_distribution(write, monkeypatch):
    offer(monkeypatch)
    more = MINIMAL | {"demo": {"language": MORE.name}}
    assert recipe.load(write(more)).demo.language == "more-sums"
    with pytest.raises(InputError, match="is more-sums and task is math; only task demo has"):
        recipe.load(write(more | {"task": "math", "data": "x"}))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "has no value; expected key=value"),
        ("=3", "expected key=value"),
        ("steps.a=1", "steps is a value, not a section"),
        ("seed=[", "is not YAML"),
        ("rolout.group_size=4", "did you mean 'rollout'?"),
    ],
)
def test_bad_overrides(write, override, message):
    with pytest.raises(InputError, match=r"override|unknown key") as error:
        recipe.load(write(MINIMAL), [override])
    assert message in str(error.value)


def test_a_merged_key_may_be_given_again(write):
    """YAML's `<<` is there to be overridden."""
    text = "name: r\nsteps: 1\nverl: {overrides: {a: &a {x: 1, y: 2}, b: {<<: *a, x: 3}}}"
    assert recipe.load(write(text)).verl.overrides["b"] == {"x": 3, "y": 2}


def test_a_key_given_twice_in_an_override(write):
    with pytest.raises(InputError, match=r"override 'credit=.*': key 'h1' is given twice"):
        recipe.load(write(MINIMAL), ["credit={estimator: ktae, h1: 1, h1: 2}"])


def test_names_that_no_file_system_takes(write):
    assert recipe.load(write(MINIMAL | {"name": "n" * 200})).name == "n" * 200
    with pytest.raises(InputError, match=r"run folder nnn.* has a name of 300 bytes; .* 255"):
        RunFolder(Path("runs") / ("n" * 300))
    with pytest.raises(InputError, match=r"cannot read recipe nnn.*too long"):
        recipe.load("n" * 300)


def test_missing_and_binary_files(tmp_path):
    with pytest.raises(InputError, match="cannot read recipe"):
        recipe.load(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        recipe.load(tmp_path / "binary.yaml")


def test_every_committed_recipe_loads(request):
    paths = sorted((request.config.rootpath / "recipes").rglob("*.yaml"))
    assert paths
    for path in paths:
        recipe.load(path)


def test_a_task_of_reasoning_gym(write):
    task = {"source": "reasoning-gym", "name": "chain_sum", "settings": {"max_terms": 2}}
    loaded = recipe.load(write(MINIMAL | {"task": task}))
    assert (loaded.task_source, loaded.task.name) == ("reasoning-gym", "chain_sum")
    assert yaml.safe_load(recipe.dump(loaded))["task"]["settings"] == {"max_terms": 2}
    with pytest.raises(InputError, match="other tasks make their own problems"):
        recipe.load(write(MINIMAL | {"task": task, "data": "x"}))
    with pytest.raises(InputError, match="nmae"):
        recipe.load(write(MINIMAL | {"task": task | {"nmae": "x"}}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"(": 1}, r"unknown key '\('"),
        ({"(problems)": 1}, r"unknown key '\(problems\)'"),
        ({"task": {"source": "gsm8k", "tran": "x"}}, "unknown key 'task.tran'; did you mean"),
        ({"task": {"source": "gsm8k", "(x": "x"}}, r"unknown key 'task.\(x'"),
        ({"task": {"settings": {}}}, "task.name is missing"),
        (
            {"task": {"source": "gym"}},
            "task: source is 'gym'; expected reasoning-gym, gsm8k, math12k",
        ),
    ],
)
def test_what_is_wrong_in_one_of_several_forms(write, content, message):
    with pytest.raises(InputError, match=message):
        recipe.load(write(MINIMAL | content))


def test_what_changes_the_rollout_advantage_is_scaled_as_it_is(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("{name: r, steps: 1}", encoding="utf-8")
    both = ["algorithm.scale_by_std=false", "credit.estimator=tempo"]
    with pytest.raises(
        InputError, match=r"with scale_by_std=True, and algorithm.scale_by_std is False; expected"
    ):
        recipe.load(path, both)
    loaded = recipe.load(path, [*both, "credit.scale_by_std=false"])
    assert loaded.credit == Tempo(scale_by_std=False)
    assert recipe.load(path, ["credit=conflict-tokens"]).credit == ConflictTokens()
