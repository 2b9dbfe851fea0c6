"""The engines behind `ktae eval`; vLLM by a stand-in with its documented signatures."""

import dataclasses
import sys
import types
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra 'eval'")
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ktae.errors import InputError
from ktae.experiments.engines import Sample, Sampling, TransformersEngine, VLLMEngine


@dataclasses.dataclass(kw_only=True)
class SamplingParams:
    """Those of vLLM's fields that we use: any other keyword is a TypeError."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 16
    seed: int | None = None


class LLM:
    """Answers with the prompt's ids; the second sample of each is cut off."""

    def __init__(self, model: str, *, enable_prefix_caching: bool = False) -> None:
        if model == "too-large":
            raise ValueError("no available memory\nfor the cache blocks")
        words = Tokenizer(models.WordLevel({"<s>": 0, "a": 1, "b": 2}, unk_token="a"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self._tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=words, bos_token="<s>", add_bos_token=True
        )
        self.calls: list[tuple[Any, Any]] = []

    def get_tokenizer(self) -> Any:
        return self._tokenizer

    def generate(
        self, prompts: Any, /, sampling_params: Any = None, *, use_tqdm: bool = True
    ) -> list[Any]:
        assert not use_tqdm
        assert len(prompts) == len(sampling_params)  # paired one by one
        self.calls.append((prompts, sampling_params))
        return [
            types.SimpleNamespace(
                outputs=[
                    types.SimpleNamespace(
                        text=f"{prompt['prompt_token_ids']} {i}",
                        token_ids=tuple(range(i + 1)),
                        finish_reason="length" if i == 1 else "stop",
                    )
                    for i in range(params.n)
                ]
            )
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams)
    monkeypatch.setitem(sys.modules, "vllm", module)  # type: ignore[arg-type]


def test_vllm_gives_samples_with_length_and_end(vllm: None) -> None:
    engine = VLLMEngine("a-model")
    found = engine.generate(["a b", "<s> b"], Sampling(2, 0.7, 64), seed=5)
    assert found == [
        [Sample("[0, 1, 2] 0", 1, True), Sample("[0, 1, 2] 1", 2, False)],
        [Sample("[0, 2] 0", 1, True), Sample("[0, 2] 1", 2, False)],  # bos once
    ]


def test_vllm_seeds_each_prompt_and_each_batch_apart(vllm: None) -> None:
    engine = VLLMEngine("a-model")
    for seed in (5, 6, 5):
        engine.generate(["a"] * 20, Sampling(4, 0.7, 64), seed=seed)
    first, other, again = ([p.seed for p in params] for _, params in engine.llm.calls)
    assert first == again
    of_samples = {seed + i for seed in first + other for i in range(4)}
    assert len(of_samples) == 2 * 20 * 4
    params = engine.llm.calls[0][1][0]
    assert (params.n, params.temperature, params.top_p, params.max_tokens) == (4, 0.7, 1.0, 64)


def test_a_model_that_cannot_be_loaded_is_one_line(vllm: None, tmp_path: Any) -> None:
    with pytest.raises(InputError, match="too-large"):
        VLLMEngine("too-large")
    with pytest.raises(InputError, match=str(tmp_path)):
        TransformersEngine(str(tmp_path))
