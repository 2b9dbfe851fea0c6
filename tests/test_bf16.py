"""bfloat16 on a CPU that advertises AMX and refuses it, played by children that kill themselves."""

import os
import signal
import subprocess
import sys

import pytest
from extras import require

from ktae import InputError, bf16
from ktae.trainers import doctor

AMX = {"model name": "Xeon", "stepping": "8", "flags": "fpu avx512_bf16 amx_bf16 amx_tile"}
NO_AMX = AMX | {"flags": "fpu avx512_bf16"}
LINUX = ("Linux", "x86_64")
ILLEGAL, OUT_OF_MEMORY, RAISED = -signal.SIGILL, -signal.SIGKILL, 1


@pytest.mark.parametrize(
    ("environ", "system", "cpu", "exempt"),
    [
        ({}, LINUX, AMX, False),
        ({}, LINUX, None, False),
        ({}, LINUX, NO_AMX, True),
        ({}, ("Linux", "aarch64"), AMX, True),
        ({}, ("Darwin", "x86_64"), None, True),
        ({"ONEDNN_MAX_CPU_ISA": "ALL"}, LINUX, AMX, True),
        ({"DNNL_MAX_CPU_ISA": "AVX2"}, LINUX, AMX, True),
    ],
)
def test_where_a_probe_is_needed(environ, system, cpu, exempt):
    assert (bf16.exempt(environ, *system, cpu) is not None) == exempt


@pytest.mark.parametrize(
    ("plain", "capped", "state"),
    [
        (0, "not asked", "works"),
        (ILLEGAL, 0, "capped"),
        (-signal.SIGSEGV, 0, "capped"),
        (ILLEGAL, ILLEGAL, "dies"),
        (RAISED, "not asked", None),
        (OUT_OF_MEMORY, "not asked", None),
        (None, "not asked", None),
        (ILLEGAL, RAISED, None),
        (ILLEGAL, None, None),
    ],
)
def test_what_the_ends_of_the_probes_tell(plain, capped, state):
    def ends(with_variable):
        end = capped if with_variable else plain
        assert end != "not asked"
        return end

    assert bf16.decide(ends) == state


class Machine:
    """A machine of the tests: what its CPU says, what probes do there, and how many there were."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.log = folder / "probes"
        self.log.touch()
        for name in (bf16.VARIABLE, bf16.OLD_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setattr(bf16.platform, "system", lambda: "Linux")
        monkeypatch.setattr(bf16.platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(bf16, "_torch_version", lambda: "2.13.0")
        monkeypatch.setattr(bf16, "CPUINFO", folder / "cpuinfo")
        self.has_cpu(AMX)
        self.does("0")

    def has_cpu(self, cpu):
        lines = [f"{name}\t: {value}\n" for name, value in cpu.items()]
        second = ["\n", "flags\t: amx_tile\n"]
        bf16.CPUINFO.write_text("".join(lines + second))

    def does(self, end):
        """`end` is Python for a probe's exit status; a negative one is a signal."""
        code = (
            f"import os; open({str(self.log)!r}, 'a').write('x'); "
            f"capped = os.environ.get('ONEDNN_MAX_CPU_ISA') == 'AVX512_CORE_BF16'; end = {end}; "
            "os.kill(os.getpid(), -end) if end < 0 else os._exit(end)"
        )
        self.monkeypatch.setattr(bf16, "COMMAND", [sys.executable, "-S", "-c", code])

    def prepare(self):
        """As a new process would."""
        os.environ.pop(bf16.VARIABLE, None)
        bf16.prepare.cache_clear()
        return bf16.prepare()

    @property
    def probes(self):
        return len(self.log.read_text())


REFUSES_AMX = "0 if capped else -4"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    usual = bf16.variables()
    yield Machine(tmp_path, monkeypatch)
    bf16.prepare.cache_clear()
    os.environ.pop(bf16.VARIABLE, None)
    os.environ.update(usual)


def test_a_machine_that_refuses_amx_gets_the_variable_and_says_so_once(machine, logged):
    machine.does(REFUSES_AMX)
    assert machine.prepare().state == "capped"
    assert bf16.prepare().state == "capped"
    [record] = logged
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in record.getMessage()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
    assert bf16.variables() == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    assert machine.probes == 2
    bf16.require("a model", "use a GPU")


def test_what_it_starts_neither_probes_nor_speaks_again(machine):
    machine.does(REFUSES_AMX)
    machine.prepare()
    code = "from ktae import bf16; print(bf16.prepare().reason)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ONEDNN_MAX_CPU_ISA" in done.stdout and not done.stderr


@pytest.mark.parametrize("end", ["0", "1", "-9"])
def test_a_machine_where_nothing_dies_is_left_alone(machine, logged, end):
    machine.does(end)
    assert machine.prepare().state == "works"
    assert bf16.VARIABLE not in os.environ and not logged
    assert machine.probes == 1
    bf16.require("a model", "use a GPU")


def test_where_the_variable_does_not_help_bf16_is_refused(machine, logged):
    machine.does("-4")
    assert machine.prepare().state == "dies"
    assert bf16.VARIABLE not in os.environ and not logged
    with pytest.raises(InputError, match=r"^a model computes in bfloat16 .*; use a GPU$"):
        bf16.require("a model", "use a GPU")


def test_without_amx_on_its_first_processor_nothing_is_probed(machine):
    machine.has_cpu(NO_AMX)
    assert machine.prepare().state == "works" and machine.probes == 0


def test_an_unreadable_cpuinfo_is_no_reason_not_to_probe(machine):
    bf16.CPUINFO.unlink()
    machine.does(REFUSES_AMX)
    assert machine.prepare().state == "capped"


def test_a_probe_that_cannot_be_started_or_does_not_end_tells_nothing(machine, monkeypatch):
    monkeypatch.setattr(bf16, "TIME_LIMIT", 0.2)
    monkeypatch.setattr(bf16, "COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert machine.prepare().state == "works"
    monkeypatch.setattr(bf16, "COMMAND", [str(machine.folder / "no-python")])
    assert machine.prepare().state == "works"
    assert not (machine.folder / "cache").exists()


def test_without_torch_nothing_is_probed(machine, monkeypatch):
    monkeypatch.setattr(bf16, "_torch_version", lambda: None)
    assert machine.prepare().state == "works" and machine.probes == 0


def test_an_answer_is_remembered(machine):
    machine.does(REFUSES_AMX)
    assert [machine.prepare().state for _ in range(3)] == ["capped"] * 3
    assert machine.probes == 2


@pytest.mark.parametrize("change", ["cpu", "torch", "host", "kernel", "probe"])
def test_another_machine_torch_or_probe_is_asked_anew(machine, monkeypatch, change):
    machine.prepare()
    if change == "cpu":
        machine.has_cpu(AMX | {"flags": "amx_tile"})
    elif change == "torch":
        monkeypatch.setattr(bf16, "_torch_version", lambda: "2.14.0")
    elif change == "probe":
        monkeypatch.setattr(bf16, "PROBE", "import torch")
    else:
        function = {"host": "node", "kernel": "release"}[change]
        monkeypatch.setattr(bf16.platform, function, lambda: "another")
    machine.does(REFUSES_AMX)
    assert machine.prepare().state == "capped"
    assert machine.probes == 3


@pytest.mark.parametrize("content", ["", "[]", '{"state": "works"}', "\xff"])
def test_a_broken_memory_only_means_to_ask_anew(machine, content):
    machine.prepare()
    [file] = (machine.folder / "cache" / "ktae").iterdir()
    file.write_text(content, encoding="latin-1")
    assert machine.prepare().state == "works"
    assert machine.probes == 2


def test_a_memory_that_cannot_be_written_only_means_to_ask_anew(machine):
    (machine.folder / "cache").write_text("not a folder")
    assert [machine.prepare().state for _ in range(2)] == ["works"] * 2
    assert machine.probes == 2


@pytest.mark.slow
def test_the_real_probe_comes_to_its_end(monkeypatch):
    require("torch")
    answer = bf16.prepare()
    if answer.state == "dies":
        pytest.skip(answer.reason)
    assert bf16._probe(capped=False) == 0, "of this process, with its variable where it needs one"


@pytest.mark.parametrize(("end", "status"), [("0", "ok"), (REFUSES_AMX, "ok"), ("-4", "absent")])
def test_doctor(machine, end, status):
    machine.does(end)
    machine.prepare()
    finding = doctor._bf16()
    assert finding.status == status
    assert bool(finding.remedy) == (end != "0")


@pytest.fixture
def dies(machine):
    machine.does("-4")
    machine.prepare()
    return machine


@pytest.mark.parametrize("how", ["bf16", "model"])
def test_a_trainer_in_bf16_is_refused_where_it_would_die(dies, tmp_path, how):
    require("trl")
    import torch

    from ktae.trainers.trl import KTAETrainer
    from ktae.trainers.trl.gradient_check import tiny_trainer

    arguments = tiny_trainer(str(tmp_path / "out"), bf16=how == "bf16")
    if how == "model":
        arguments["model"].to(torch.bfloat16)
    with pytest.raises(InputError, match="bf16=False"):
        KTAETrainer(**arguments)


def test_a_trainer_in_float32_is_not(dies, tmp_path):
    require("trl")
    from ktae.trainers.trl import KTAETrainer
    from ktae.trainers.trl.gradient_check import tiny_trainer

    KTAETrainer(**tiny_trainer(str(tmp_path / "out")))


def test_evaluation_of_a_bf16_model_is_refused_where_it_would_die(dies, tmp_path):
    require("transformers")
    import torch

    from ktae.demo import SUMS
    from ktae.demo.model import make_model, make_tokenizer
    from ktae.evaluation.engines import TransformersEngine

    if torch.cuda.is_available():
        pytest.skip("the model is evaluated on the GPU")
    make_tokenizer(SUMS).save_pretrained(tmp_path / "model")
    make_model(SUMS, seed=0).save_pretrained(tmp_path / "model")
    TransformersEngine(str(tmp_path / "model"))
    make_model(SUMS, seed=0).to(torch.bfloat16).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="convert it to float32"):
        TransformersEngine(str(tmp_path / "model"))


@pytest.fixture
def verl_run(tmp_path):
    """A recipe for verl, and the folder of its run."""
    require("verl")
    from ktae.recipe import Recipe
    from ktae.runs import RunFolder

    (tmp_path / "model").mkdir()

    def make(**overrides):
        recipe = Recipe(
            name="x",
            steps=1,
            model={"path": str(tmp_path / "model")},
            verl={"overrides": overrides},
        )
        return recipe, RunFolder(tmp_path / "run")

    return make


@pytest.mark.slow
def test_verl_on_the_cpu_is_refused_where_it_would_die(dies, verl_run, tmp_path):
    from ktae.trainers.verl import run

    with pytest.raises(InputError, match=r"^verl computes in bfloat16"):
        run.run(*verl_run(**{"trainer.device": "cpu"}), resume=False)
    assert not (tmp_path / "run").exists()
    run.plan(*verl_run())


@pytest.mark.slow
def test_ray_s_workers_are_told_of_the_variable(machine, verl_run):
    from ktae.trainers.verl import run

    key = "+ray_kwargs.ray_init.runtime_env.env_vars.ONEDNN_MAX_CPU_ISA"
    machine.prepare()
    assert key not in run.plan(*verl_run())
    machine.does(REFUSES_AMX)
    machine.has_cpu(AMX | {"stepping": "9"})
    machine.prepare()
    assert run.plan(*verl_run())[key] == "AVX512_CORE_BF16"
    assert run._environment(verl_run()[1])["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
