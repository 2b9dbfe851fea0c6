"""A study of fake runs as a process of its own, to be interrupted and killed: MATRIX OUTPUT."""

import sys
from pathlib import Path

from small import TRAIN

from ktae_lab.study import cells, matrix, runner
from ktae_lab.study.folder import StudyFolder

path, output = map(Path, sys.argv[1:3])
loaded = matrix.load(path)
every = cells.expand(loaded, path)
folder = StudyFolder(output)
with folder.open(loaded, every, resume="--resume" in sys.argv) as lock:
    stopped_by = runner.run(every, folder, lock, jobs=2, progress=lambda *_: None, command=TRAIN)
sys.exit(0 if stopped_by is None else 128 + stopped_by)
