"""The settings as fields of TRL's configuration: command line, YAML, trackers, the model card."""

import json
import math

import pytest
import torch
from copied import copy_of
from trl import GRPOConfig, GRPOTrainer, TrlParser
from trl.experimental.gmpo import GMPOTrainer

from ktae import InputError
from ktae.estimators import Tempo
from ktae.trainers.trl import KTAEConfig, KTAETrainer
from ktae.trainers.trl.gradient_check import even_start


def even(completion_ids, **_):
    return even_start(completion_ids)


def short(completion_ids, **_):
    return [float(len(ids) < 6) for ids in completion_ids]


def test_trls_parser_reads_them_from_the_command_line_and_from_yaml(tmp_path):
    line = ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false"]
    words = ["--credit", "trigrams", "--correctness", "even", "--threshold", "0.5"]
    (config,) = TrlParser(KTAEConfig).parse_args_and_config([*line, *words])
    assert (config.credit, config.correctness, config.threshold) == ("trigrams", ["even"], 0.5)
    (config,) = TrlParser(KTAEConfig).parse_args_and_config(
        [*line, "--credit", '{"estimator": "ktae", "h3": 0}']
    )
    assert config.credit == {"estimator": "ktae", "h3": 0}
    file = tmp_path / "run.yaml"
    file.write_text("credit: {estimator: ktae, h3: 0}\ncorrectness: [even]\n")
    (config,) = TrlParser(KTAEConfig).parse_args_and_config([*line, "--config", str(file)])
    assert config.credit == {"estimator": "ktae", "h3": 0} and config.correctness == ["even"]
    file.write_text("credit: null\n")
    (config,) = TrlParser(KTAEConfig).parse_args_and_config([*line, "--config", str(file)])
    assert config.credit is None


def tracked(trainer):
    """What trackers are given as the run's configuration."""
    return json.loads(json.dumps(trainer.args.to_dict()))


def test_runs_that_differ_in_credit_differ_in_the_configuration_of_trackers(trainer_arguments):
    arguments = trainer_arguments()
    short_form = KTAETrainer(**arguments, credit=Tempo(), threshold=0.5)
    off = KTAETrainer(**arguments, credit=None)
    by_config = KTAEConfig(**settings_of(arguments["args"]), credit="trigrams")
    trainers = short_form, off, KTAETrainer(**arguments | {"args": by_config})
    assert [tracked(x)["credit"] for x in trainers] == ["tempo", None, "trigrams"]
    assert [tracked(x)["threshold"] for x in trainers] == [0.5, 0.0, 0.0]
    assert type(arguments["args"]) is GRPOConfig and not hasattr(arguments["args"], "credit")


def settings_of(args):
    names = ("output_dir", "per_device_train_batch_size", "num_generations", "use_cpu", "bf16")
    names += ("max_completion_length", "max_steps", "seed", "report_to", "save_strategy")
    return {name: getattr(args, name) for name in (*names, "gradient_checkpointing")}


def test_without_credit_nothing_is_needed_and_it_is_plain_grpo(trainer_arguments):
    """Two reward functions, neither of them named: bit by bit what GRPOTrainer trains."""
    weights = []
    for trainer, more in ((GRPOTrainer, {}), (KTAETrainer, {"credit": None})):
        arguments = trainer_arguments(max_steps=2) | {"reward_funcs": [short, even]}
        model = arguments["model"] = copy_of(arguments["model"])
        trainer(**arguments, **more).train()
        weights.append([p.detach().clone() for p in model.parameters()])
    assert all((a == b).all() for a, b in zip(*weights, strict=True))


def test_trls_own_script_trains_with_it(trainer_arguments, tmp_path, monkeypatch):
    """`python -m ktae.trainers.trl`: fields from YAML and from the command line."""
    from ktae.trainers.trl import __main__ as script

    arguments = trainer_arguments()
    for name in ("model", "processing_class"):
        arguments[name].save_pretrained(tmp_path / "model")
    data = tmp_path / "data"
    data.mkdir()
    arguments["train_dataset"].to_json(data / "train.jsonl")
    (tmp_path / "mine.py").write_text("from ktae.trainers.trl.gradient_check import even_start\n")
    settings = settings_of(arguments["args"]) | {
        "dataset_name": str(data),
        "model_name_or_path": str(tmp_path / "model"),
        "dtype": "float32",
        "reward_funcs": ["mine.even_start"],
        "credit": {"estimator": "ktae", "h3": 0},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    monkeypatch.chdir(tmp_path)
    script.main(["--config", "run.yaml", "--threshold", "0.5"])
    args = torch.load(tmp_path / "out/training_args.bin", weights_only=False)
    assert type(args) is KTAEConfig and (args.credit, args.threshold) == ("no-tf", 0.5)


class OtherLoss(KTAETrainer, GMPOTrainer):
    """A loss that takes one advantage for each response."""


def test_another_trainers_loss_is_refused_with_credit(trainer_arguments):
    with pytest.raises(InputError) as error:
        OtherLoss(**trainer_arguments())
    assert "GMPOTrainer" in str(error.value)
    OtherLoss(**trainer_arguments(), credit=None).train()


@pytest.mark.parametrize("wrong", [{"credit": "trigram"}, {"threshold": math.nan}])
def test_a_wrong_setting_is_refused_when_the_configuration_is_made(tmp_path, wrong):
    with pytest.raises(InputError):
        KTAEConfig(str(tmp_path), use_cpu=True, bf16=False, **wrong)
