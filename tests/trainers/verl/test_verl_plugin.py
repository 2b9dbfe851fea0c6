"""How the plug-in gets into verl, and what it says when it cannot."""

import contextlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys

import pytest
from extras import installed

from ktae.errors import InputError
from ktae.estimators import DEFAULT
from ktae.trainers.verl import options
from ktae.trainers.verl.options import MODES


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )


def test_verl_finds_the_plug_in_by_its_entry_point():
    found = importlib.metadata.entry_points(group="verl.plugins")
    assert [(point.name, point.value) for point in found] == [("ktae", "ktae.trainers.verl")]


def fake_verl(folder, version):
    """A verl of that version that loads plug-ins as verl does."""
    package = folder / "verl"
    package.mkdir()
    (package / "__init__.py").write_text(
        f"__version__ = {version!r}\n"
        "import importlib, os\n"
        "for name in filter(None, os.getenv('VERL_USE_EXTERNAL_MODULES', '').split(',')):\n"
        "    importlib.import_module(name)\n"
        "try:\n"
        "    importlib.import_module('ktae.trainers.verl')\n"
        "except Exception:\n"
        "    pass\n"
    )
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


@pytest.mark.parametrize(
    ("version", "asked_for", "status", "message"),
    [
        ("0.8.1", "ktae.trainers.verl", 1, "verl 0.8.1"),
        ("0.8.1", "", 0, "adv_estimator=ktae is off: verl 0.8.1"),
        ("0.10.0", "", 0, "verl 0.10.0"),
    ],
)
def test_another_version_is_warned_of_or_where_it_was_asked_for_refused(
    tmp_path, version, asked_for, status, message
):
    environment = {
        "PYTHONPATH": fake_verl(tmp_path, version),
        "VERL_USE_EXTERNAL_MODULES": asked_for,
    }
    done = python("import verl", **environment)
    assert done.returncode == status
    assert message in done.stderr


def test_everything_is_registered(verl):
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.v1 import get_trainer_cls

    assert get_adv_estimator_fn("ktae").__module__ == "ktae.trainers.verl.advantages"
    for mode in MODES:
        stock = get_trainer_cls(mode.removeprefix("ktae_"))
        assert issubclass(get_trainer_cls(mode), stock)


def configuration(adv_estimator, mode, more=(), **credit):
    from omegaconf import OmegaConf

    algorithm = {"adv_estimator": adv_estimator, "credit": credit, **dict(more)}
    return OmegaConf.create({"algorithm": algorithm, "trainer": {"v1": {"trainer_mode": mode}}})


def test_a_mode_hands_verl_its_own_name_for_it(verl, monkeypatch):
    from verl.trainer.ppo.v1 import get_trainer_cls

    started_as = []

    def start(self, config):
        started_as.append(config.trainer.v1.trainer_mode)

    monkeypatch.setattr(get_trainer_cls("separate_async"), "__init__", start)
    mode = "ktae_separate_async"
    get_trainer_cls(mode)(configuration("ktae", mode, h3=0))
    assert started_as == ["separate_async"]


@pytest.mark.parametrize(
    ("estimator", "mode", "algorithm", "key"),
    [
        ("ktae", "sync", {}, "gets no token ids"),
        ("ktae", "ktae_sync", {"credit": {"h4": 1}}, "'h4'"),
        ("grpo", "ktae_sync", {}, "adv_estimator=grpo"),
        ("grpo", "sync", {"credit": {"estimator": "trigrams"}}, "adv_estimator=grpo"),
        # verl's own configuration takes any key that is added with `+`.
        ("ktae", "ktae_sync", {"credits": {"estimator": "trigrams"}}, "algorithm.credits "),
        ("ktae", "ktae_sync", {"ktae": {"estimator": "trigrams"}}, "algorithm.ktae "),
    ],
)
def test_a_mode_refuses_before_it_starts(verl, estimator, mode, algorithm, key):
    from verl.trainer.ppo.v1 import get_trainer_cls

    with pytest.raises(InputError) as error:
        get_trainer_cls(mode)(configuration(estimator, mode, algorithm))
    assert key in str(error.value)


@pytest.mark.parametrize("credit", [{}, {"estimator": "trigrams"}])
def test_the_estimator_that_trains_is_logged(verl, logged, credit):
    from verl.trainer.ppo.v1 import get_trainer_cls

    with pytest.raises(AttributeError):  # verl's own: the checks are passed
        get_trainer_cls("ktae_sync")(configuration("ktae", "ktae_sync", **credit))
    assert credit.get("estimator", DEFAULT) in logged[0].getMessage()


def test_what_the_driver_cannot_do_is_refused_before_it_starts(verl):
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer
    from verl.trainer.ppo.v1 import get_trainer_cls

    lines = [{"over-units": "line"}]
    config = configuration("ktae", "ktae_sync", tokenizer="/no/where", transforms=lines)
    with pytest.raises(InputError) as error:
        get_trainer_cls("ktae_sync")(config)
    assert "/no/where" in str(error.value)
    with pytest.raises(InputError) as error:
        RayPPOTrainer(configuration("ktae", "ktae_sync"))
    assert str(error.value).startswith("algorithm.adv_estimator=ktae gets no")
    options.from_algorithm(config.algorithm)  # whoever starts the run may be another machine


@pytest.mark.parametrize("loss", ["gspo", "geo_mean"])
def test_a_loss_that_averages_advantages_is_refused(verl, loss):
    from omegaconf import OmegaConf

    config = configuration("ktae", "ktae_sync")
    OmegaConf.update(config, options.LOSS_MODE, loss, force_add=True)
    averages = loss == "geo_mean"
    with pytest.raises(InputError) if averages else contextlib.nullcontext():
        options.checked(config, has_token_ids=True)


def test_verl_uses_trl_only_where_it_has_the_model_it_wants(verl):
    from verl.utils.import_utils import is_trl_available

    has_model = importlib.util.find_spec("trl.experimental.ppo") if installed("trl") else None
    assert is_trl_available() == (has_model is not None)
