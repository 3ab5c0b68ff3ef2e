"""What expressions may say: functions by their SQL names, operators, casts, and no more."""

from __future__ import annotations

from typing import NamedTuple


class Spelling(NamedTuple):
    """A way to write something, on the columns of `EXAMPLE_COLUMNS`.

    Attributes:
        example: text that parses.
        about: what it gives.
        gpu: whether cudf-polars takes it; what it declines runs on the CPU.
        copies: how often, as a power of two, the parser repeats an operand in what it builds.
    """

    example: str
    about: str
    gpu: bool = True
    copies: int = 0


EXAMPLE_COLUMNS = {"ts": int, "dur": int, "bytes": int, "share": float, "name": str, "done": bool}

SCALARS = {
    "abs": Spelling("abs(dur)", "without its sign"),
    "sign": Spelling("sign(dur)", "-1, 0 or 1"),
    "ceil": Spelling("ceil(share)", "rounded up"),
    "floor": Spelling("floor(share)", "rounded down"),
    "round": Spelling("round(share, 2)", "rounded to decimals, halves to even"),
    "trunc": Spelling("trunc(share)", "rounded towards 0"),
    "div": Spelling("div(dur, 1000)", "integer division, rounded down, as `//`"),
    "mod": Spelling("mod(dur, 1000)", "what an integer division leaves, as `%`"),
    "exp": Spelling("exp(share)", "exponential"),
    "ln": Spelling("ln(share)", "natural logarithm"),
    "log2": Spelling("log2(share)", "logarithm to base 2"),
    "log10": Spelling("log10(share)", "logarithm to base 10"),
    "log1p": Spelling("log1p(share)", "natural logarithm of 1 + x"),
    "power": Spelling("power(share, 2)", "power"),
    "pow": Spelling("pow(share, 2)", "power"),
    "sqrt": Spelling("sqrt(share)", "square root"),
    "cbrt": Spelling("cbrt(share)", "cube root"),
    "greatest": Spelling("greatest(dur, bytes)", "largest in the row; nulls do not count"),
    "least": Spelling("least(dur, bytes)", "smallest in the row; nulls do not count"),
    "coalesce": Spelling("coalesce(dur, 0)", "the first that is not null"),
    "ifnull": Spelling("ifnull(dur, 0)", "the second where the first is null"),
    "nullif": Spelling("nullif(dur, 0)", "null where both are equal", copies=1),
    "if": Spelling("if(dur > 10, 1, 0)", "as `case when ... then ... else ... end`"),
    "cast": Spelling("cast(dur as double)", "another type, as `dur::double`; fails where it cannot"),
    "try_cast": Spelling("try_cast(name as bigint)", "another type; null where it cannot be"),
    "starts_with": Spelling("starts_with(name, 'nccl')", "whether the text starts so"),
    "ends_with": Spelling("ends_with(name, 'Kernel')", "whether the text ends so"),
    "regexp_like": Spelling("regexp_like(name, 'Reduce')", "whether a pattern matches, as `~`"),
    "lower": Spelling("lower(name)", "in small letters"),
    "upper": Spelling("upper(name)", "in capital letters"),
    "length": Spelling("length(name)", "number of characters"),
    "octet_length": Spelling("octet_length(name)", "number of bytes"),
    "strpos": Spelling("strpos(name, '<')", "place of a text from 1 on; 0: not there", copies=1),
    "left": Spelling("left(name, 8)", "the first characters", copies=2),
    "right": Spelling("right(name, 8)", "the last characters", gpu=False, copies=3),
    "substr": Spelling("substr(name, 1, 8)", "characters from a place, counted from 1", copies=3),
    "replace": Spelling("replace(name, 'ab', 'c')", "one text for another, which is no longer"),
    "concat": Spelling("concat(dur, ' ns')", "texts and numbers in a row; nulls are left out"),
    "concat_ws": Spelling("concat_ws(', ', name, dur)", "the same with a text between"),
    "trim": Spelling("trim(name)", "without white space at both ends"),
    "ltrim": Spelling("ltrim(name)", "without white space in front"),
    "rtrim": Spelling("rtrim(name)", "without white space at the end"),
}  # fmt: skip

AGGREGATES = {
    "sum": Spelling("sum(dur)", "sum; null of nothing but nulls", copies=1),
    "avg": Spelling("avg(dur)", "mean"),
    "min": Spelling("min(dur)", "smallest"),
    "max": Spelling("max(dur)", "largest"),
    "count": Spelling(
        "count(distinct name)", "distinct values; `count(*)`: rows; `count(x)`: not null", copies=1
    ),
    "median": Spelling("median(dur)", "median"),
    "quantile_cont": Spelling("quantile_cont(dur, 0.9)", "quantile, between two values linear"),
    "stddev": Spelling("stddev(dur)", "standard deviation of a sample"),
    "variance": Spelling("variance(dur)", "variance of a sample"),
    "first": Spelling("first(name)", "the first row's"),
    "last": Spelling("last(name)", "the last row's"),
}

WINDOWS = {
    "row_number": Spelling("row_number() over (order by ts)", "1, 2, 3, ...", gpu=False),
    "rank": Spelling("rank() over (order by dur)", "place; equals share the first"),
    "dense_rank": Spelling("dense_rank() over (order by dur)", "place among distinct values"),
    "lag": Spelling("lag(ts, 1) over (partition by name order by ts)", "the row before"),
    "lead": Spelling("lead(ts, 1) over (partition by name order by ts)", "the row after"),
    "first_value": Spelling("first_value(dur) over (partition by name order by ts)", "the first"),
}

OPERATORS = (
    Spelling("dur + ts - bytes * 2", "sum, difference, product"),
    Spelling("dur / bytes", "quotient, always a float"),
    Spelling("ts // 1000", "integer division, rounded down"),
    Spelling("ts % 1000", "what it leaves"),
    Spelling("dur = 5 or dur <> 6", "equal, not equal; also `==` and `!=`"),
    Spelling("dur < 5 or dur <= 6 or ts > 7 or ts >= 8", "order"),
    Spelling("done and not dur > 5", "truth values; null is unknown"),
    Spelling("dur is null or ts is not null", "unknown or known"),
    Spelling("dur is distinct from ts", "not equal, where nulls are equal"),
    Spelling("done is true", "a truth value"),
    Spelling("dur between 10 and 20", "from, to, both included"),
    Spelling("name in ('gemm', 'relu')", "one of a list of numbers or texts; also `not in`"),
    Spelling("name ~ 'gemm|relu'", "a regular expression matches; `!~`: does not"),
    Spelling("name || ' ' || dur", "texts in a row; null where one is"),
    Spelling("case when dur > 9 then 'long' when dur > 5 then 'medium' else 'short' end", "choice"),
    Spelling("dur::double", "another type"),
    Spelling("sum(dur) over (partition by name)", "an aggregate of the row's group"),
    Spelling("sum(dur) over (partition by name order by ts)", "the sum up to the row"),
    Spelling("(1.5 + 2) * share", "numbers and parentheses"),
)

CASTS = {
    "tinyint": "Int8", "smallint": "Int16", "integer": "Int32", "bigint": "Int64",
    "utinyint": "UInt8", "usmallint": "UInt16", "uinteger": "UInt32", "ubigint": "UInt64",
    "real": "Float32", "double": "Float64", "varchar": "String", "boolean": "Boolean",
}  # fmt: skip
"""Type names of SQL -> of Polars; the types that a column of a trace can have."""

FUNCTIONS = SCALARS | AGGREGATES | WINDOWS

KEYWORDS = frozenset({
    "and", "as", "between", "by", "case", "distinct", "else", "end", "in", "is", "not", "null",
    "or", "order", "over", "partition", "then", "when", "from", "asc", "desc", "nulls",
})  # fmt: skip
"""Words that may stand before a parenthesis though they are no functions."""

AGGREGATE_NODES = frozenset({
    "Sum", "Mean", "Min", "Max", "Median", "Count", "NUnique", "First", "Last", "Std", "Var",
    "Quantile", "NullCount", "Len",
})  # fmt: skip
"""What Polars calls the aggregates."""

CUMULATIVE_NODES = frozenset({
    "CumSum", "FillNullWithStrategy", "Range", "Rank", "Shift",
})  # fmt: skip
"""What Polars calls functions of a row and others."""

SCALAR_NODES = frozenset({
    "Abs", "Sign", "Ceil", "Floor", "Round", "Truncate", "Exp", "Log", "Log1p", "Generic",
    "Sqrt", "Cbrt", "MaxHorizontal", "MinHorizontal", "Coalesce", "FillNull", "IsNull",
    "IsNotNull", "IsIn", "Not", "Contains", "StartsWith", "EndsWith", "Lowercase", "Uppercase",
    "LenChars", "LenBytes", "Slice", "Find", "Replace", "ConcatHorizontal", "StripChars",
    "StripCharsStart", "StripCharsEnd",
})  # fmt: skip
"""What Polars calls functions of a row alone."""

FUNCTION_NODES = SCALAR_NODES | CUMULATIVE_NODES | {"Quantile", "NullCount"}
FAMILIES = frozenset({"StringExpr", "Boolean", "Pow"})
"""Names that Polars puts around those of some functions."""
