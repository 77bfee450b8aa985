"""The numbers of the paper's tables, each in one TOML file that names the table."""

import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper.

    Args:
        title: what it shows.
        paper: the paper and the number of the table.
        data: the data it was measured on.
        note: what to know before a comparison; "" for nothing.
        columns: names of the columns, such as lengths of codes.
        rows: (method, network) → value by column; columns without a value are left out.
    """

    title: str
    paper: str
    data: str
    note: str
    columns: tuple[str, ...]
    rows: dict[tuple[str, str], dict[str, float]]

    def row(self, method: str, network: str) -> tuple[str, dict[str, float]]:
        """The row of a method: of this network if there is one, else of the first; ("–", {}) without a row."""
        networks = [net for name, net in self.rows if name == method]
        if not networks:
            return "–", {}
        chosen = network if network in networks else networks[0]
        return chosen, self.rows[method, chosen]


def paper_table(name: str) -> PaperTable:
    """The table of ``paper/<name>.toml``."""
    text = (resources.files("scdh.experiments.reproduce") / "paper" / f"{name}.toml").read_text("utf-8")
    content = tomllib.loads(text)
    columns = tuple(content["columns"])
    rows = {}
    for method, network, *values in content["rows"]:
        by_column = zip(columns, values, strict=True)
        rows[method, network] = {column: float(value) for column, value in by_column if value != ""}
    return PaperTable(content["title"], content["paper"], content["data"], content["note"], columns, rows)
