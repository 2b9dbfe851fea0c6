"""`python -m ktae_lab` is the command `ktae-lab`."""

from ktae_lab.cli import main

if __name__ == "__main__":
    main()
