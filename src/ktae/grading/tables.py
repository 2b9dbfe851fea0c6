"""Languages, units and signs, read from `tables.toml`."""

import tomllib
from importlib import resources

_TABLES = tomllib.loads(resources.files("ktae.grading").joinpath("tables.toml").read_text("utf-8"))
LANGUAGES = _TABLES["languages"]
BASES = _TABLES["bases"]
UNITS = _TABLES["units"]
SIGNS = _TABLES["signs"]
SYNONYMS = {words: sign for sign, some in _TABLES["synonyms"].items() for words in some}
AND, OR = LANGUAGES["and"], LANGUAGES["or"]
