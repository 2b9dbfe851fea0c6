"""Environment and fixtures of the whole suite.

The environment is set before numba, torch or transformers can be imported: they read it once.
"""

import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from extras import require
from hypothesis import settings

README = Path(__file__).resolve().parents[1] / "README.md"

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Some CPUs advertise AMX and kill the process that uses it: oneDNN is to keep to AVX-512.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


# Python looks for garbage at every 700 new objects, of which a million are imported here.
gc.set_threshold(50_000, 20, 50)


NIGHTLY = (
    "tests/engines",
    "tests/notebooks",
    "tests/fuzz/test_long_inputs.py",
)
"""Folders and files that `make test` leaves out; other tests are marked where they stand."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the nightly ones and those of the browser; order them for several processes."""
    for item in items:
        if item.nodeid.startswith(NIGHTLY):
            item.add_marker("nightly")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    if hasattr(config, "workerinput"):
        _longest_first(items)


def pytest_collection_finish() -> None:
    """Accelerate collects garbage before each training: half a second, if it looks at all that was
    imported."""
    gc.collect()
    gc.freeze()


LONGEST = ("tests/engines", "tests/report/test_browser.py", "tests/trainers", "tests/counting")
"""Of several processes, one that begins such a file when the others are done is waited for."""


def _longest_first(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((i for i, x in enumerate(LONGEST) if item.nodeid.startswith(x)), len(LONGEST))

    items.sort(key=rank)


settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session", params=["naive", "cpu", "torch"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn; `by_backend` computes with it."""
    return request.param


@pytest.fixture(scope="session", params=["cpu", "torch"])
def fast_backend(request: pytest.FixtureRequest) -> str:
    """Every backend but the oracle, which the others are compared with."""
    return request.param


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    """What is logged during the test, from warnings on; what is said once in a process, again.

    pytest's own plug-in does this for each test and each of 900 loggers, so it is off.
    """
    monkeypatch.setattr("ktae.trainers.settings._warned", set())
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    monkeypatch.setattr(logging.root, "handlers", [*logging.root.handlers, handler])
    return records


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level tokenizer that cuts as Qwen2's does, and its special tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, pre_tokenizers, trainers

    cut = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(cut), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["so naïve, said the café: é " * 9, README.read_text()], trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def verl() -> ModuleType:
    """The installed verl, with its trainers loaded and the plug-in in them; that takes seconds."""
    require("verl")
    import verl
    import verl.trainer.ppo.ray_trainer
    import verl.trainer.ppo.v1

    import ktae.trainers.verl  # noqa: F401

    return verl


@pytest.fixture
def trainer_arguments(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Keyword arguments of TRL's trainer for a tiny policy, with prompts and a reward, on one CPU
    process; `config` entries replace the defaults."""
    from ktae.trainers.trl.gradient_check import tiny_trainer

    return lambda **config: tiny_trainer(str(tmp_path / "out"), **config)
