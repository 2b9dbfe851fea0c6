"""The matrix file: what it expands to, and what it says about bad input."""

import re
from pathlib import Path

import pytest
import yaml
from small import CONTENT, LAB, ROOT
from typer.testing import CliRunner

from ktae import preset
from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.estimators import KTAE, PermutedLabels
from ktae_lab.cli import app
from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study.folder import StudyFolder

METHOD = CONTENT["methods"]["grpo"]


@pytest.fixture
def expand(tmp_path):
    def expand(**changes):
        path = tmp_path / "matrix.yaml"
        path.write_text(yaml.safe_dump(CONTENT | changes))
        return expansion.expand(matrices.load(path), path)

    return expand


def test_seed_by_seed_over_all_methods(expand):
    assert [cell.name for cell in expand(seeds={"first": 100, "count": 2})] == [
        "grpo/seed100",
        "grpo-ktae/seed100",
        "grpo/seed101",
        "grpo-ktae/seed101",
    ]


def test_base_models_take_turns_over_the_seeds(expand):
    cells = [cell for cell in expand(seeds=[5, 6, 7], demo_seeds=[0, 9]) if cell.method == "grpo"]
    assert [(c.seed, c.base) for c in cells] == [(5, "demo:0"), (6, "demo:9"), (7, "demo:0")]
    assert [c.recipe.model.demo_seed for c in cells] == [0, 9, 0]
    assert [c.recipe.seed for c in cells] == [5, 6, 7]


def test_a_method_wins_over_a_task_and_a_task_over_the_rest(expand):
    methods = {
        "plain": METHOD,
        "longer": METHOD | {"overrides": {"steps": 9}},
    }
    cells = expand(
        methods=methods,
        contrasts=[],
        overrides={"steps": 3, "optimizer.learning_rate": 1e-5},
        tasks={
            "short": {"overrides": {"steps": 5}},
            "usual": {},
            "here": {"overrides": {"steps": 5}, "of_methods": {"longer": {"steps": 7}}},
        },
        seeds=[1],
    )
    assert {cell.name: cell.recipe.steps for cell in cells} == {
        "short/plain/seed1": 5,
        "short/longer/seed1": 9,
        "usual/plain/seed1": 3,
        "usual/longer/seed1": 9,
        "here/plain/seed1": 5,
        "here/longer/seed1": 7,
    }
    assert {cell.recipe.optimizer.learning_rate for cell in cells} == {1e-5}


def test_a_section_comes_before_the_keys_in_it(expand):
    overrides = {"credit.transforms": ["permuted-labels"], "credit": {"estimator": "released"}}
    assert expand(overrides=overrides)[0].recipe.credit == PermutedLabels(preset("released"))


def test_a_section_takes_the_place_of_keys_set_for_all(expand):
    recipe = str(ROOT / "recipes/demo/grpo-ktae.yaml")
    methods = {
        "grpo": {"recipe": recipe, "overrides": {"credit": None}},
        "ktae": {"recipe": recipe},
        "larger": {"recipe": recipe, "overrides": {"credit.h3": 2}},
        "released": {"recipe": recipe, "overrides": {"credit": "released"}},
    }
    cells = expand(methods=methods, contrasts=[], overrides={"credit.h3": 0}, seeds=[1])
    assert {cell.method: cell.recipe.credit for cell in cells} == {
        "grpo": None,
        "ktae": KTAE(h3=0),
        "larger": KTAE(h3=2),
        "released": preset("released"),
    }


def test_recipes_are_relative_to_the_matrix(tmp_path):
    (tmp_path / "r.yaml").write_text("name: r\nsteps: 2\n")
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep/m.yaml"
    path.write_text("name: m\nmethods: {a: {recipe: ../r.yaml}}\nseeds: [0]\n")
    assert expansion.expand(matrices.load(path), path)[0].recipe.steps == 2


def test_recipe_digests_are_of_all_seeds_and_base_models(expand):
    tasks = {"sums": {}, "lists": {"overrides": {"demo.language": "lists"}}}
    cells = expand(tasks=tasks, demo_seeds=[0, 1])
    digests = expansion.recipe_digests(cells)
    assert set(digests) == {"sums/grpo", "sums/grpo-ktae", "lists/grpo", "lists/grpo-ktae"}
    assert len(set(digests.values())) == 4
    for cell in cells:
        place = f"{cell.task}/{cell.method}"
        assert expansion.recipe_digests([cell]) == {place: digests[place]}


def test_recipe_digests_follow_every_other_setting(expand):
    def of(**overrides):
        methods = {"a": METHOD | {"overrides": overrides}}
        return expansion.recipe_digests(expand(methods=methods, contrasts=[]))["a"]

    settings = {"steps": 9, "model.lora_rank": 4, "credit": "paper", "model.path": "other"}
    assert len({of()} | {of(**{key: value}) for key, value in settings.items()}) == 5
    clip_low = recipes.load(METHOD["recipe"]).algorithm.clip_low
    assert clip_low == recipes.Algorithm().clip_low
    assert of(**{"algorithm.clip_low": clip_low}) == of(), "a default is the same, said or not"


def test_the_model_key_tells_base_models_apart(expand):
    tasks = {name: {"overrides": {"demo.language": name}} for name in ("sums", "lists")}
    cells = expand(seeds=[1, 2], tasks=tasks, demo_seeds=[0, 1])
    assert len({(cell.task, cell.base, cell.model_key) for cell in cells}) == 4
    assert len({cell.model_key for cell in cells}) == 4
    real = {"a": {"recipe": str(ROOT / "recipes/smollm2/grpo.yaml")}}
    tasks = {f"to{n}": {"overrides": {"task.settings.max_digits": n}} for n in (1, 2)}
    cells = expand(seeds=[1, 2], methods=real, contrasts=[], tasks=tasks)
    assert len({cell.model_key for cell in cells}) == 1, "one model, whatever it is asked"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": [1]}, "unknown key 'seed'; did you mean 'seeds'?"),
        ({"methods": {"a": {"recipy": "x"}}}, "methods.a: unknown key 'recipy'; did you mean 'rec"),
        ({"methods": {"a/b": METHOD}}, "methods.a/b"),
        ({"methods": {}}, "methods: Dictionary should have"),
        ({"methods": {"a": {"recipe": "none.yaml"}}}, "method a: cannot read recipe"),
        ({"seeds": {"first": 1, "cuont": 2}}, "is no range; expected {first: 100, count: 20}"),
        ({"seeds": [1, 1]}, "a seed is there twice"),
        ({"seeds": []}, "seeds: "),
        ({"outcomes": {"x": {"curve": "entropy", "summary": "after.entropy"}}}, "either summary"),
        ({"outcomes": {"x": {"summary": "after.entropy", "last": 3}}}, "which averages a curve"),
        ({"overrides": {"seed": 3}}, "method grpo: sets seed, which the matrix sets itself"),
        ({"demo_seeds": [0], "overrides": {"model.path": "x"}}, "sets model.path, which the"),
        (
            {"tasks": {"x": {"of_methods": {"grpoo": {}}}}},
            "no method: 'grpoo'; did you mean 'grpo'",
        ),
        ({"overrides": {"stepz": 3}}, "method grpo: recipe "),
    ],
)
def test_bad_input(expand, changes, message):
    with pytest.raises(InputError) as caught:
        expand(contrasts=[], **changes)
    assert message in str(caught.value)
    assert "matrix.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treatment": "grpo-kate"}, "names no method: 'grpo-kate'; did you mean 'grpo-ktae'?"),
        ({"outcomes": ["sampled_acuracy"]}, "did you mean 'sampled_accuracy'?"),
        ({"treatment": "grpo"}, "compares grpo with itself"),
        ({"kind": "sure"}, "should be 'confirmatory' or 'exploratory'"),
    ],
)
def test_bad_contrasts(expand, changes, message):
    with pytest.raises(InputError) as caught:
        expand(contrasts=[CONTENT["contrasts"][0] | changes])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "path", sorted((LAB / "matrices").glob("*.yaml")), ids=lambda path: path.name
)
def test_committed_matrices(path: Path):
    matrix = matrices.load(path)
    cells = expansion.expand(matrix, path)
    assert matrix.name == path.stem
    assert len({cell.name for cell in cells}) == len(cells)
    assert len({tuple(cell.overrides) for cell in cells}) == len(cells)


def test_the_experiment_on_gpus_can_be_started(tmp_path):
    """All but the GPU, the model and the data: six arms, thirty seeds."""
    study = ["study", str(LAB / "matrices/gpu.yaml"), "--output", str(tmp_path / "gpu")]
    listed = CliRunner().invoke(app, [*study, "--dry-run"])
    assert listed.exit_code == 0, listed.output
    assert "math/offset/seed5100 (not started)" in listed.output
    assert "180 runs, 36000 training steps" in listed.output
    assert not (tmp_path / "gpu").exists()


@pytest.mark.parametrize("name", ["gpu-rates", "gpu"])
def test_the_experiment_on_gpus_can_be_measured(tmp_path, name):
    """By the command that the matrix's head has; before the first run there is nothing to do."""
    path = LAB / "matrices" / f"{name}.yaml"
    matrix, folder = matrices.load(path), tmp_path / name
    cells = expansion.expand(matrix, path)
    StudyFolder(folder).open(matrix, cells, resume=False).close()
    head = (LAB / "matrices/gpu.yaml").read_text()
    command = re.search(rf"ktae-lab (temperatures) lab/matrices/{name}\.yaml \S+ (.*)", head)
    measured = CliRunner().invoke(app, [command[1], str(path), str(folder), *command[2].split()])
    assert measured.exit_code == 0, measured.output
    assert "0 runs" in measured.output
