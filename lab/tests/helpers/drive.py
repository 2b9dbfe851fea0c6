"""A study of fake runs as a process of its own, to be interrupted and killed: MATRIX OUTPUT."""

import sys
from pathlib import Path

from small import TRAIN, Silent

from ktae_lab.study import cells, matrix, runner
from ktae_lab.study.folder import StudyFolder

path, output = map(Path, sys.argv[1:3])
loaded = matrix.load(path)
every = cells.expand(loaded, path)
folder = StudyFolder(output)
with folder.open(loaded, every, resume="--resume" in sys.argv):
    stopped_by = runner.run(every, folder, jobs=2, progress=Silent(), command=TRAIN)
sys.exit(0 if stopped_by is None else 128 + stopped_by)
