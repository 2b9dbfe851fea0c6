"""Which trainers ktae plugs into, and what of each was run: `src/ktae/trainers/support.csv`."""

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import page
from ktae_lab.tables.page import Table, markdown

HEAD = ["trainer", "versions", "proven on", "what was run", "install"]
COLUMNS = ("engine", "versions", "evidence", "what was run", "extra", "page")


def support(folder: str = "") -> str:
    """One row a trainer, whose name links to its page: in `folder`, from where the table is."""
    path = page.LAB.parent / "src" / "ktae" / "trainers" / "support.csv"
    rows = []
    for row in read_csv(path, COLUMNS):
        extra = f"[{row['extra']}]" if row["extra"] else ""
        link = f"[{row['engine']}]({folder}{row['page']}.md)"
        versions = row["versions"].replace(",", ", ")
        install = f"`pip install '.{extra}'`" if extra else "`pip install .`"
        rows.append([link, versions, row["evidence"], row["what was run"], install])
    return markdown(HEAD, rows)


TABLES: dict[str, Table] = {"support": support}
