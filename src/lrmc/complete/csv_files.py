"""Tables of text in files: csv and tsv, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._extras import optional
from .._memory import memory_there_is
from ..formats.variables import Unusable
from ..weights import Array
from .frames import updated
from .table import Reading, Table
from .text_tables import text_table

AT_ONCE = 1 << 20  # characters
DELIMITERS = ",;\t|"
COMPRESSED: Mapping[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
CSV = tuple(f".csv{packed}" for packed in ("", *COMPRESSED))  # suffixes
TSV = tuple(f".tsv{packed}" for packed in ("", *COMPRESSED))


def read_csv_file(path: Path, how: Reading) -> Table:
    """Header, index, delimiter and decimal mark are found out."""
    first = _looked_through(path)
    return _read(path, how, max(DELIMITERS, key=first.count))


def read_tsv_file(path: Path, how: Reading) -> Table:
    """As csv files, but with tabs."""
    _looked_through(path)
    return _read(path, how, "\t")


def _read(path: Path, how: Reading, delimiter: str) -> Table:
    pandas = optional("pandas", "tables")
    # Objects and not pandas' own text: that is an array for each column, which takes minutes if
    # there are 100,000.
    with _opened(path) as file:
        try:
            text = pandas.read_csv(
                file,
                header=None,
                dtype=object,
                keep_default_na=False,
                sep=delimiter,
                encoding="utf-8-sig",
            )
        except pandas.errors.ParserError as error:
            raise Unusable(
                f"{path}: lines have unlike numbers of cells"
                f" ({str(error).strip().split('C error: ')[-1]}); take out what stands above"
                " the header, such as comments, and quote cells that hold the delimiter"
            ) from None
    cells = text.fillna("").to_numpy(object)
    return text_table(cells, how, path, delimiter)


def _opened(path: Path, mode: str = "rt") -> Any:
    """As text, unpacked."""
    opener = COMPRESSED.get(path.suffix.lower(), open)
    return opener(
        path, mode, encoding="utf-8-sig" if mode == "rt" else "utf-8", newline=""
    )


def _looked_through(path: Path) -> str:
    """The first line, after all of the file was seen to be text that fits into memory."""
    most, size = memory_there_is(), 0
    try:
        with _opened(path) as file:
            first: str = file.readline()
            for part in iter(lambda: file.read(AT_ONCE), ""):
                size += len(part)
                if size > most:
                    raise Unusable(f"{path} unpacks to more than the memory there is")
    except UnicodeDecodeError:
        raise Unusable(
            f"{path} is not UTF-8 text, which is wanted: convert it, as with iconv -f"
            f" {_encoding(path)} -t utf-8"
        ) from None
    return first


def _encoding(path: Path) -> str:
    """A guess for text that is not UTF-8: the first bytes tell what spreadsheets call Unicode."""
    with COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
        return "utf-16" if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "latin1"


def write_csv_file(path: Path, table: Table, X: Array) -> None:
    """With the delimiter of the source; cells that did not change stay letter for letter."""
    _write(path, table, X, table.delimiter)


def write_tsv_file(path: Path, table: Table, X: Array) -> None:
    """As csv files, but with tabs."""
    _write(path, table, X, "\t")


def _write(path: Path, table: Table, X: Array, delimiter: str) -> None:
    frame = updated(table, X, as_text=True)
    default_index = type(frame.index).__name__ == "RangeIndex"
    with _opened(path, "wt") as file:
        frame.to_csv(
            file,
            header=table.frame is not None and table.header,
            index=not default_index,
            sep=delimiter,
            na_rep="",
            lineterminator="\n",
        )
