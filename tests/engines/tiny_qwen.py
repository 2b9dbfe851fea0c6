r"""The demo's base model as a Qwen2 that writes LaTeX, for real mathematics without a download.

A Llama is a Qwen2 whose attention has no biases, so the weights are the same and so is what it
says, but for a word: `\boxed{` instead of `box`.
"""

import json

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from ktae.experiments.demo.sums import EOS, PAD

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


def make_qwen(base, folder):
    """Write both into `folder`: `model`, and apart from it `tokenizer`. Beside a Qwen2,
    transformers 5.10 takes every tokenizer for Qwen's own."""
    _model(base).save_pretrained(folder / "model")
    _write_tokenizer(base, folder / "tokenizer")
    return folder / "model", folder / "tokenizer"


def _model(base):
    """With one more token, which is as unlikely as padding."""
    llama = AutoModelForCausalLM.from_pretrained(base)
    known = Qwen2Config().to_dict().keys() - {"model_type", "architectures"}
    config = {name: value for name, value in llama.config.to_dict().items() if name in known}
    qwen = Qwen2ForCausalLM(Qwen2Config(**config | {"vocab_size": llama.config.vocab_size + 1}))
    weights = llama.state_dict()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        like_padding = weights[name][llama.config.pad_token_id].unsqueeze(0)
        weights[name] = torch.cat([weights[name], like_padding])
    biases = {
        name: torch.zeros_like(weight)
        for name, weight in qwen.state_dict().items()
        if name.endswith("bias")
    }
    qwen.load_state_dict(weights | biases)
    return qwen


def _write_tokenizer(base, folder):
    """With what verl looks for in a Qwen2's: `<|im_end|>`, and a newline that is one token."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    words = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    vocabulary[r"\boxed{"] = vocabulary.pop("box")
    vocabulary["<|im_end|>"] = vocabulary.pop(EOS)
    vocabulary["\n"] = len(vocabulary)
    special = {token["content"]: token for token in words["added_tokens"]}
    special[EOS]["content"] = "<|im_end|>"
    words["added_tokens"].append(special[PAD] | {"id": vocabulary["\n"], "content": "\n"})
    (folder / "tokenizer.json").write_text(json.dumps(words))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token": "<|im_end|>"}))
