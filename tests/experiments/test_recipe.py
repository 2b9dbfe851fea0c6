import pytest
import yaml

from ktae import InputError
from ktae.estimators import KTAE, Centred, ConflictTokens, Ignoring, Tempo, preset
from ktae.experiments import recipe
from ktae.experiments.recipe import dump_yaml
from ktae.files.typed import parse_yaml

MINIMAL = {"name": "r", "steps": 3}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "recipe.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


def test_dump_is_the_same_recipe(write):
    section = {"estimator": "ktae", "h1": 0, "transforms": [{"ignoring": [3, 1]}, "centred"]}
    loaded = recipe.load(write(MINIMAL | {"credit": section}))
    assert loaded.credit == Centred(Ignoring(KTAE(h1=0), (1, 3)))
    assert recipe.load(write(recipe.dump(loaded))) == loaded
    task = {"source": "reasoning-gym", "name": "chain_sum", "settings": {"max_terms": 2}}
    loaded = recipe.load(write(MINIMAL | {"task": task}))
    assert recipe.load(write(recipe.dump(loaded))) == loaded
    assert yaml.safe_load(recipe.dump(loaded))["task"]["settings"] == {"max_terms": 2}


def test_overrides_take_yaml_values_and_make_sections(write):
    overrides = ["seed=4", "credit.h3=0", "credit.eps=1e-3", "rollout.temperature=0.5"]
    loaded = recipe.load(write(MINIMAL | {"credit": "paper"}), overrides)
    assert (loaded.seed, loaded.rollout.temperature) == (4, 0.5)
    assert loaded.credit == KTAE(h3=0.0, eps=1e-3)
    assert recipe.load(write(MINIMAL | {"credit": "paper"}), ["credit=null"]).credit is None
    loaded = recipe.load(write(MINIMAL), ["credit.estimator=trigrams", "credit.transforms=centred"])
    assert loaded.credit == Centred(preset("trigrams"))


def test_numbers_may_have_an_exponent_and_no_dot_and_values_are_read_as_they_are_written():
    read = parse_yaml(
        "[1e-6, -0.5, 2E3, 7, true, ~, '1e-6', 'null', '', {<<: {a: 1}, b: 2}]", "here"
    )
    assert read == [1e-6, -0.5, 2000.0, 7, True, None, "1e-6", "null", "", {"a": 1, "b": 2}]
    assert [type(value) for value in read[:4]] == [float, float, float, int]
    assert parse_yaml(dump_yaml(read), "here") == read


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MINIMAL | {"sed": 1}, "sed: "),
        (MINIMAL | {"credit": {"estimator": "paper", "qqq": 8}}, "credit: "),
        ("name: r\nsteps: 1\nseed: 1 30", "seed: "),
        (MINIMAL | {"task": {"source": "file", "train": "x"}}, "task.file: "),
        (MINIMAL | {"algorithm": {"minibatches": 3}}, "algorithm.minibatches"),
        ("a: !!python/object/apply:os.system [echo owned]", "recipe"),
    ],
)
def test_bad_recipes_say_what_and_where(write, content, message):
    path = write(content)
    with pytest.raises(InputError) as error:
        recipe.load(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "'seed'"),
        ("steps.a=1", "steps"),
    ],
)
def test_bad_overrides(write, override, message):
    with pytest.raises(InputError) as error:
        recipe.load(write(MINIMAL), [override])
    assert message in str(error.value)


def test_every_committed_recipe_loads(request):
    paths = sorted((request.config.rootpath / "recipes").rglob("*.yaml"))
    assert paths
    for path in paths:
        recipe.load(path)


def test_what_changes_the_rollout_advantage_is_scaled_as_it_is(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("{name: r, steps: 1}", encoding="utf-8")
    both = ["algorithm.scale_by_std=false", "credit.estimator=tempo"]
    with pytest.raises(InputError):
        recipe.load(path, both)
    loaded = recipe.load(path, [*both, "credit.scale_by_std=false"])
    assert loaded.credit == Tempo(scale_by_std=False)
    assert recipe.load(path, ["credit=conflict-tokens"]).credit == ConflictTokens()
