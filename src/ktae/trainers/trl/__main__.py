"""TRL's own script for GRPO with token credit: `accelerate launch -m ktae.trainers.trl ...`.

It takes what `trl grpo` takes, on the command line or from YAML (`--config`), and the fields of
`KTAEConfig` besides.
"""

from __future__ import annotations

from collections.abc import Sequence

import trl
from trl import DatasetMixtureConfig, ModelConfig, TrlParser
from trl.scripts import grpo

from ktae.trainers.trl.config import KTAEConfig
from ktae.trainers.trl.trainer import KTAETrainer


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, of the process by default, and train by TRL's script."""
    parser = TrlParser((grpo.GRPOScriptArguments, KTAEConfig, ModelConfig, DatasetMixtureConfig))
    parsed = parser.parse_args_and_config(arguments)
    theirs = trl.GRPOTrainer
    trl.GRPOTrainer = KTAETrainer  # the script imports it when it trains
    try:
        grpo.main(*parsed)
    finally:
        trl.GRPOTrainer = theirs


if __name__ == "__main__":
    main()
