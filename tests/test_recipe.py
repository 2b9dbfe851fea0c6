import pytest
import yaml
from second_language import MORE, offer

from ktae import InputError, KTAEConfig, recipe

MINIMAL = {"name": "r", "steps": 3}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "recipe.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


def test_defaults_and_sections(write):
    loaded = recipe.load(write(MINIMAL | {"ktae": {"preset": "released", "h3": 0}}))
    assert loaded.rollout.group_size == 16
    assert loaded.ktae.config() == KTAEConfig.released(h3=0.0)
    assert recipe.load(write(MINIMAL)).ktae is None


def test_dump_is_the_same_recipe(write):
    loaded = recipe.load(write(MINIMAL | {"ktae": {"h1": 0, "ignore_token_ids": [3, 1]}}))
    assert recipe.load(write(recipe.dump(loaded))) == loaded


def test_overrides_take_yaml_values_and_make_sections(write):
    overrides = ["seed=4", "ktae.h3=0", "rollout.temperature=0.5", "optimizer.learning_rate=1e-3"]
    loaded = recipe.load(write(MINIMAL | {"ktae": None}), overrides)
    assert (loaded.seed, loaded.rollout.temperature) == (4, 0.5)
    assert loaded.optimizer.learning_rate == 1e-3
    assert loaded.ktae.config() == KTAEConfig(h3=0.0)
    assert recipe.load(write(MINIMAL | {"ktae": {}}), ["ktae=null"]).ktae is None


def test_changes_are_found_in_the_keys_of_either_recipe(write):
    """`ktae: null` has none of the keys of `ktae: {}`; a setting may be in one recipe only."""

    def changes(there, here):
        return recipe.changes(*(recipe.load(write(MINIMAL | keys)) for keys in (there, here)))

    assert changes({"seed": 1}, {"seed": 1}) == []
    assert changes({"seed": 0}, {"seed": 7}) == ["seed (0 there, 7 here)"]
    assert changes({"ktae": {"h3": 0}}, {"ktae": {}}) == ["ktae.h3 (0.0 there, None here)"]
    assert changes({"ktae": {}}, {"ktae": None}) == ["ktae.preset ('paper' there, None here)"]
    assert changes({"ktae": None}, {"ktae": {}}) == ["ktae.preset (None there, 'paper' here)"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MINIMAL | {"sed": 1}, "unknown key 'sed'; did you mean 'seed'?"),
        (MINIMAL | {"rollout": {"group_sise": 8}}, "'rollout.group_sise'; did you mean 'group_siz"),
        (MINIMAL | {"ktae": {"qqq": 8}}, "unknown key 'ktae.qqq'; expected one of h1, h2"),
        (MINIMAL | {"ktae": {"preset": "papre"}}, "no preset 'papre'; expected one of paper, rel"),
        (MINIMAL | {"ktae": {"h1": -1}}, "h1 is -1.0; expected a number from 0 to 1e+30"),
        (MINIMAL | {"steps": "many"}, "steps is 'many'; expected a valid integer"),
        (MINIMAL | {"steps": 0}, "steps is 0; expected greater than 0"),
        (MINIMAL | {"name": "../x"}, "name is '../x'; "),
        (MINIMAL | {"model": "demo"}, "model is 'demo'; expected settings, such as {key: value}"),
        (MINIMAL | {"name": "a b"}, "name is 'a b'; expected letters, digits, '.', '_' and '-'"),
        (MINIMAL | {"ktae": {"units": 5}}, "ktae.units is 5; expected a list, such as [a, b]"),
        (
            MINIMAL | {"demo": {"language": "latin"}},
            "demo.language: no demo language 'latin'; expected one of sums",
        ),
        (MINIMAL | {"demo": {"language": ["sums"]}}, "demo.language is ['sums']; expected a valid"),
        (
            MINIMAL | {"model": {"demo_size": "medium"}},
            "model.demo_size is 'medium'; the base models of the language sums have one size, tiny",
        ),
        (
            MINIMAL | {"model": {"demo_size": "tiny", "pth": "x"}},
            "'model.pth'; did you mean 'path'",
        ),
        (
            MINIMAL | {"trl": {"ktae_decay_steps": 9}},
            "trl.ktae_decay_steps is 9 and ktae is null; there is no term whose weight could fall",
        ),
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


def test_the_size_in_recipes_of_older_run_folders_is_the_language_s(write, monkeypatch):
    """It was a setting once; a model that is not the demo's had it too, at its default."""
    offer(monkeypatch)
    for old in (
        MINIMAL | {"model": {"demo_size": "tiny", "demo_seed": 2}},
        MINIMAL | {"model": {"demo_size": "small"}, "demo": {"language": MORE.name}},
        MINIMAL | {"model": {"path": "x/y", "demo_size": "tiny"}, "task": "math", "data": "d"},
    ):
        loaded = recipe.load(write(old))
        new = old | {"model": {key: x for key, x in old["model"].items() if key != "demo_size"}}
        assert recipe.changes(loaded, recipe.load(write(new))) == []
        assert "demo_size" not in recipe.dump(loaded)
    with pytest.raises(InputError, match=r"demo_size is .tiny.; the base .* more-sums .* small"):
        recipe.load(
            write(MINIMAL | {"model": {"demo_size": "tiny"}, "demo": {"language": MORE.name}})
        )


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
