"""Write `ktae report --example`: the rollouts of a run, and the texts of the tokens that occur.

    python tools/example.py RUN_FOLDER

`rollouts.parquet` leaves out what is computed anew. `tokenizer.json` turns token ids into text, and
cannot do the reverse. Ids are numbered anew: the hundreds of tokens that occur, in the model's
order, instead of its 49,152.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models

from ktae.rollouts import record
from ktae.rollouts.readers import read

FOLDER = Path(__file__).resolve().parents[1] / "src" / "ktae" / "rollouts" / "example"
KEPT = ["group", "step", "prompt", "response", "answer", "reward", "correct"]


def excerpt(run: Path, folder: Path) -> None:
    """Write both files into the folder."""
    rollouts = read([run / "rollouts"])
    whole = Tokenizer.from_file(str(run / "model" / "tokenizer.json"))
    ids = [row.values.to_numpy() for row in rollouts["token_ids"]]  # a run has them
    distinct = np.unique(np.concatenate(ids))
    renumbered = [np.searchsorted(distinct, own).astype(np.int32) for own in ids]
    small = rollouts.select(KEPT).append_column("token_ids", pa.array(renumbered))
    record.write_parquet(record.conform(small), folder / "rollouts.parquet")

    pieces = {whole.id_to_token(token_id): i for i, token_id in enumerate(distinct.tolist())}
    # A word level only looks pieces up. Its token for unknown words is not among them.
    lookup = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    lookup.decoder = decoders.ByteLevel()
    lookup.save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    excerpt(Path(sys.argv[1]), FOLDER)
