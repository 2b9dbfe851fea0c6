"""The pages' Python blocks run, but for those that say why not (`skip: next`)."""

import contextlib
import unittest
from pathlib import Path

import pages
import pytest
from sybil import Document, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

PARSER = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()])
APART = {"index.md"}
"""This one has a test of its own."""
PAGES = [path for path in sorted(pages.DOCS.glob("*.md")) if path.name not in APART]


def run(document: Document) -> None:
    for example in document.examples():
        with contextlib.suppress(unittest.SkipTest):
            example.evaluate()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(PARSER.parse(path))


def test_the_trainer_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tiny model in place of the reader's, and one step."""
    from ktae.trainers import trl
    from ktae.trainers.trl.gradient_check import tiny_trainer

    tiny = tiny_trainer(str(tmp_path))
    own = {name: tiny[name] for name in ("model", "processing_class")}
    trainer_class = trl.KTAETrainer
    monkeypatch.setattr(trl, "KTAETrainer", lambda **given: trainer_class(**(given | own)))

    def accuracy(completion_ids, **_):
        return [float(ids[0] % 2) for ids in completion_ids]

    document = PARSER.parse(pages.ROOT / "README.md")
    document.namespace.update(accuracy=accuracy, args=tiny["args"], dataset=tiny["train_dataset"])
    run(document)
    document.namespace["trainer"].train()
    logged = document.namespace["trainer"].state.log_history[0]
    assert logged["credit/mean_abs"] > 0
