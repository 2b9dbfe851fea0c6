"""Estimators of the user's own by the name of their module or file."""

import numpy as np
import pyarrow as pa
import pytest
from in_process import ktae as command

import ktae
from ktae import InputError, recipe
from ktae.estimators import Scaled, from_section, resolved, to_section, to_text
from ktae.rollouts import record
from ktae.runs import RunFolder

CODE = """
import dataclasses, pathlib
import numpy as np
from ktae.estimators import Centred, Estimator, Function, preset

pathlib.Path(__file__).with_suffix(".was-run").touch()

def ends(token_ids, mask, correct, groups):
    return np.where(correct[:, None], 0.5, -0.5) * mask

@dataclasses.dataclass(frozen=True, repr=False)
class Ends(Estimator):
    weight: float = 1.0
    on_host = True

    def credit(self, batch):
        return self.weight * Function(ends).credit(batch)

centred = Centred(preset("paper"))
number = 3
nameless = lambda *arrays: 0
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A module on Python's path, in a folder that is not the current one."""
    file = tmp_path / f"own_{tmp_path.name}.py".replace("-", "_")
    file.write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return file


def credit(estimator):
    return ktae.token_credit([[1, 2], [3, 4]], [[1, 1], [1, 0]], [1, 0], [0, 0], estimator)


@pytest.mark.parametrize("by_file", [True, False])
def test_functions_classes_and_values_have_a_name(file, by_file):
    module = str(file) if by_file else file.stem
    ends = np.array([[0.5, 0.5], [-0.5, 0]], dtype=np.float32)
    for section, expected in (
        (f"{module}:ends", ends),
        (f"{module}:Ends", ends),
        ({"estimator": f"{module}:Ends", "weight": 3.0}, 3 * ends),
        ({"estimator": f"{module}:ends", "transforms": ["centred"]}, None),
    ):
        named = from_section(section)
        assert to_section(named) == section
        estimator = resolved(named)
        if expected is not None:
            np.testing.assert_allclose(credit(estimator), expected)
        assert to_section(estimator) == section  # as a recipe keeps it
    assert to_text(resolved(from_section(f"{module}:ends"))) == f"{module}:ends"
    assert to_text(resolved(from_section(f"{module}:centred"))).startswith('{"estimator": "ktae"')


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "no_such_module:x",
            {},
            r"no module 'no_such_module' on Python's path .* no_such_module.py:",
        ),
        ("no_such.py:x", {}, "no_such.py is no file; expected a Python file"),
        ("{file}:end", {}, r"has no 'end'; did you mean 'ends'\?"),
        ("{file}:number", {}, r"is 3; expected a function \(token_ids, mask, correct, groups\)"),
        ("{file}:nameless", {}, "is <function <lambda> .* made by def"),
        ("{file}:ends", {"weight": 2}, "is no class of estimators, so it has no settings: weight"),
        ("{file}:Ends", {"height": 2}, "Ends: .*unexpected keyword argument 'height'"),
    ],
)
def test_what_is_no_estimator_says_what_is_expected(file, name, settings, message):
    section = {"estimator": name.format(file=file)} | settings
    with pytest.raises(InputError, match=message):
        resolved(from_section(section))


def test_an_error_of_the_code_is_its_own(file):
    file.write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        resolved(from_section(f"{file}:x"))


def rollouts(folder):
    columns = {"group": ["a"] * 2, "token_ids": [[1, 2], [3]], "reward": [1.0, 0.0]}
    columns["correct"] = columns["reward"]
    record.write(record.conform(pa.table(columns)), folder / "step-00001.parquet")


def test_a_run_folder_that_names_code_runs_none(file, tmp_path, capsys):
    """The same name, given by the user, does."""
    run = RunFolder(tmp_path / "run")
    run.create(f"name: r\nsteps: 1\ncredit: {file}:ends\n")
    rollouts(run.rollouts)
    assert recipe.load(run.recipe).credit == from_section(f"{file}:ends")
    arguments = ["show", run.path, "--json"]
    assert command(*arguments) == command(*arguments, "-s", "transforms=centred") == 2
    assert f"{file}:ends is code of your own, which is not run" in capsys.readouterr().err
    assert not file.with_suffix(".was-run").exists()
    assert command(*arguments, "-e", f"{file}:ends") == 0
    assert file.with_suffix(".was-run").exists()
    assert "0.5" in capsys.readouterr().out


def test_a_recipe_that_is_trained_names_code(file, tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text(f"name: r\nsteps: 1\ncredit: {{estimator: {file.stem}:Ends, weight: 2.0}}\n")
    assert command("train", path, "--dry-run") == 0
    assert f"estimator: {file.stem}:Ends" in capsys.readouterr().out
    assert command("train", path, "--dry-run", f"credit={file.stem}:Enn") == 2
    assert "did you mean" in capsys.readouterr().err


def test_the_trainers_take_the_name(file):
    from ktae.trainers.lists import Settings

    assert Settings(f"{file}:ends").tried().estimator == resolved(from_section(f"{file}:ends"))
    pytest.importorskip("omegaconf", reason="needs the extra 'verl'")
    from ktae.trainers.verl import options

    chosen = options.from_algorithm({"credit": {"estimator": f"{file}:Ends", "weight": 2.0}})
    assert chosen.settings.estimator.weight == 2.0


def test_transforms_wrap_what_has_a_name(file):
    estimator = resolved(Scaled(from_section(f"{file}:ends"), 2.0))
    assert estimator.inner.function.__name__ == "ends"
