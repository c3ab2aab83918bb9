from typing import Any

def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> None: ...
def max_threads() -> int: ...
def most_threads() -> int: ...
def survey(Y: Any, mask: Any, rows: Any, cols: Any, threads: int) -> int: ...
def locate(indptr: Any, indices: Any, rows: Any, cols: Any, out: Any) -> None: ...
def read_once(X: Any, threads: int) -> int: ...
def consensus(
    indptr: Any,
    indices: Any,
    values: Any,
    G: Any,
    border: float,
    draws: int,
    seed: int,
    F: Any,
    agreeing: Any,
    threads: int,
) -> None: ...
def newton(
    indptr: Any,
    indices: Any,
    errors: Any,
    weights: Any,
    U: Any,
    V: Any,
    ridge: float,
    tol: float,
    most: int,
    step: Any,
) -> int: ...
