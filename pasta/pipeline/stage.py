"""What a stage is, and the decorator that registers one.

A stage is one function in one file of `pasta/pipeline/stages`:

    @stage("bin_pages", row_wise=True)
    def bin_pages(accesses: pl.LazyFrame, *, page_bytes: int = 4096) -> pl.LazyFrame:
        ...

Positional parameters are inputs, wired by `from` in YAML; one annotated `pl.LazyFrame | None`
may stay unwired, one annotated `*inputs` takes any number. Keyword-only parameters are arguments,
checked against their annotation. A stage whose inputs are annotated `pl.DataFrame` runs array
code: the plan is cut in front of it, so that it sees collected columns.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import polars as pl

from pasta.registry import Registry

Kind = Literal["row-wise", "mergeable", "whole"]
Order = Literal["kept", "own", "undefined"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Merge:
    """How results over parts of the rows combine.

    The law, tested for every stage that has one:
    `final(combine([partial(part) for any split])) == final(combine([partial(all)])) == stage(all)`.

    Where there are `keys`, states can also be cut by them, and what is cut off combined by itself: the law
    holds for the rows of one cut of all states, with what all states have in `common`, under one another.

    Attributes:
        partial: rows of one part -> its state, a lazy frame.
        combine: states, concatenated -> one state.
        final: state -> the stage's result.
        applies: arguments -> whether they allow merging.
        keys: arguments -> columns of states; rows that differ in one of them do not meet.
        common: a state -> rows that all that is cut off from any state has to have beside its own; they leave
            no rows of a result.
    """

    partial: Callable[..., pl.LazyFrame]
    combine: Callable[..., pl.LazyFrame]
    final: Callable[..., pl.LazyFrame]
    applies: Callable[[Mapping[str, Any]], bool] = lambda _arguments: True
    keys: Callable[[Mapping[str, Any]], Collection[str]] = lambda _arguments: ()
    common: Callable[..., pl.LazyFrame] | None = None


@dataclass(frozen=True)
class Within:
    """How a stage works on parts of the rows that do not cut its keys.

    The law, tested for every stage that has one: where rows of equal keys stay together and the
    parts keep the order of the rows, `gather(the parts' results under one another) == stage(all)`.

    Attributes:
        keys: arguments -> columns; rows that differ in one of them do not affect each other.
        gather: results of all parts -> the stage's result; `None` where it follows its first input.
        renumbers: whether `gather` changes values too, so that nothing may run before it.
    """

    keys: Callable[[Mapping[str, Any]], Collection[str]]
    gather: Callable[..., pl.LazyFrame] | None = None
    renumbers: bool = False


@dataclass(frozen=True)
class Sliced:
    """How a stage that gives the disjoint intervals of groups works on slices of time.

    It has the arguments `by`, `start` and `duration`, and its result these columns. The law, tested
    for every stage that has one: where intervals are cut at the borders of slices, the results of
    all slices, rejoined there as `pasta.pipeline.time_slices` does, are `stage(all)`.

    Attributes:
        flags: arguments -> the other columns, bools that are false where nothing lasts.
        fills: whether a group's intervals follow each other without gaps.
        applies: arguments -> whether they allow slicing.
    """

    flags: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _arguments: ()
    fills: bool = False
    applies: Callable[[Mapping[str, Any]], bool] = lambda _arguments: True


PROCESS = ("trace", "rank", "pid")
"""Columns that name a process, within which ids are unique."""

WITHIN_PROCESS = Within(lambda _arguments: PROCESS)


@dataclass(frozen=True)
class Input:
    """One input of a stage."""

    name: str
    optional: bool = False
    many: bool = False


@dataclass(frozen=True)
class Argument:
    """One argument of a stage; `default` is `inspect.Parameter.empty` where it is required."""

    name: str
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether YAML must give it."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Stage:
    """A registered stage."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    arguments: dict[str, Argument]
    array: bool
    merge: Merge | None
    row_wise: Callable[[Mapping[str, Any]], bool]
    needs: Callable[[Mapping[str, Any]], list[str]] | None = None
    within: Within | None = None
    sliced: Sliced | None = None
    looks_up: bool = False
    order: Order = "kept"
    on_device: Callable[..., Any] | None = None
    unsorted: Callable[..., pl.LazyFrame] | None = None

    def __reduce__(self) -> tuple[Callable[[str], Stage], tuple[str]]:
        """Pickle the name; a worker looks the stage up among its own."""
        return _registered, (self.name,)

    @property
    def about(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def kind(self, arguments: Mapping[str, Any]) -> Kind:
        """Tell how the stage, with these arguments, may be run on parts of the rows."""
        if self.row_wise(arguments):
            return "row-wise"
        if self.merge is not None and self.merge.applies(arguments):
            return "mergeable"
        return "whole"


STAGES: Registry[Stage] = Registry("stage", "pasta.pipeline.stages")


def _registered(name: str) -> Stage:
    return STAGES.get(name)


def stage(
    name: str,
    *,
    row_wise: bool | Callable[[Mapping[str, Any]], bool] = False,
    merge: Merge | None = None,
    needs: Callable[[Mapping[str, Any]], list[str]] | None = None,
    within: Within | None = None,
    sliced: Sliced | None = None,
    looks_up: bool = False,
    order: Order = "kept",
    on_device: Callable[..., pl.DataFrame] | None = None,
    unsorted: Callable[..., pl.LazyFrame] | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as the stage `name`.

    Args:
        name: what YAML calls it.
        row_wise: whether it is valid batch by batch, and replaces no columns but those that its
            arguments name; may depend on the arguments.
        merge: how results over parts combine, if they do.
        needs: arguments -> the only columns that an array stage reads from its inputs, where it
            does not carry the others on, so that no more is run in front of it.
        within: how it works on parts that do not cut its keys, if it does.
        sliced: how it works on slices of time, if it does.
        looks_up: whether it works on each row of the first input by itself, with all rows of the others.
        order: of the result: `kept` follows the first input (or all of them, under one another),
            `own` is defined by the stage alone.
        on_device: array code for a GPU, which declines the stage's plan; it gives the same rows.
        unsorted: the same rows in no order, into which `gather` of `within` sorts them by its argument `by`.
    """

    def register(function: Function) -> Function:
        described = _describe(name, function, row_wise=row_wise, merge=merge)
        complete = dataclasses.replace(
            described,
            needs=needs,
            within=within,
            sliced=sliced,
            looks_up=looks_up,
            order=order,
            on_device=on_device,
            unsorted=unsorted,
        )
        STAGES.add(name, complete)
        return function

    return register


def _describe(
    name: str,
    function: Callable[..., Any],
    *,
    row_wise: bool | Callable[[Mapping[str, Any]], bool],
    merge: Merge | None,
) -> Stage:
    hints = typing.get_type_hints(function, include_extras=True)
    inputs: list[Input] = []
    arguments: dict[str, Argument] = {}
    array = False
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints[parameter.name]
        if parameter.kind is parameter.KEYWORD_ONLY:
            arguments[parameter.name] = Argument(parameter.name, annotation, parameter.default)
            continue
        options = typing.get_args(annotation) or (annotation,)
        array = array or pl.DataFrame in options
        many = parameter.kind is parameter.VAR_POSITIONAL
        inputs.append(Input(parameter.name, optional=type(None) in options, many=many))
    return Stage(
        name=name,
        function=function,
        inputs=tuple(inputs),
        arguments=arguments,
        array=array,
        merge=merge,
        row_wise=row_wise if callable(row_wise) else (lambda _arguments: row_wise),
    )
