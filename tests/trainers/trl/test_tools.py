"""TRL's own environments with tools: what they say is masked, and credit is of the turns."""

import numpy as np
import pytest
import transformers
from packaging.version import Version
from tokenizers import Tokenizer, models, pre_tokenizers

import ktae
from ktae.estimators import AnchorStates
from ktae.experiments.demo import sums
from ktae.experiments.demo.model import make_model, make_tokenizer
from ktae.padding import pad
from ktae.trainers.trl.gradient_check import GROUP_SIZE, tiny_trainer, train_one_step
from ktae.turns import find_turns

if Version(transformers.__version__) < Version("5.13"):
    pytest.importorskip("jmespath", reason="TRL's tools need it, or transformers from 5.13 on")

TEMPLATE = (
    "{% for m in messages %}{{ m.content }} {% for call in m.tool_calls or [] %}"
    "{{ call.function.name }} {% for name, value in call.function.arguments.items() %}"
    "{{ name }} {{ value }} {% endfor %}{% endfor %}"
    "{% if m.role == 'assistant' %}<eos> {% endif %}{% endfor %}"
)
CALL = {
    "name": {"type": "string", "x-regex": r"^(\w+)"},
    "arguments": {
        "type": "object",
        "properties": {"what": {"type": "string", "x-regex": r"(\w+)$"}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "role": {"const": "assistant"},
        "content": {"type": "string"},
        "tool_calls": {
            "type": "array",
            "x-regex-iterator": r"((?:gets|loses) \w+)",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"const": "function"},
                    "function": {"type": "object", "properties": CALL},
                },
            },
        },
    },
}


class Purse:
    """An environment as TRL takes it: its public methods are the tools."""

    def reset(self, prompt, **_):
        self._total = 0

    def gets(self, what: str) -> str:
        """Put something in.

        Args:
            what: The number.
        """
        return self._now(1, what)

    def loses(self, what: str) -> str:
        """Take something out.

        Args:
            what: The number.
        """
        return self._now(-1, what)

    def _now(self, sign, what):
        self._total += sign * int(what) if what.isdecimal() else 0
        return f"now total is {self._total % sums.MODULUS}"


def test_credit_is_of_the_turns_between_what_the_tools_said(tmp_path):
    tokenizer = make_tokenizer()
    # TRL tries the template with words of its own.
    words = Tokenizer(models.WordLevel(tokenizer.get_vocab(), unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = type(tokenizer)(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    tokenizer.chat_template, tokenizer.response_schema = TEMPLATE, SCHEMA
    model = make_model(seed=0)
    arguments = tiny_trainer(str(tmp_path), max_completion_length=60, max_tool_calling_iterations=3)
    prompts = [[{"role": "user", "content": h.prompt}] for h in sums.train_problems(64, seed=0)]
    arguments |= {
        "model": model,
        "processing_class": tokenizer,
        "train_dataset": arguments["train_dataset"].from_dict({"prompt": prompts}),
        "environment_factory": Purse,
    }
    batch, _, _ = train_one_step(arguments, credit=AnchorStates())
    ids, mask = pad(batch.token_ids, [np.array(mask, bool) for mask in batch.masks])
    said = [text for text in tokenizer.batch_decode(np.where(mask, 0, ids)) if "total" in text]
    assert said and find_turns(mask).number.max() > 0
    groups = np.arange(len(ids)) // GROUP_SIZE
    credit = ktae.token_credit(ids, mask, batch.correct.numpy(), groups, AnchorStates())
    np.testing.assert_allclose(batch.credit, credit, atol=1e-6)
    assert not credit[~mask].any() and credit.any()
