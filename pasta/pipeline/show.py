"""A graph as text for people and as a Mermaid flowchart."""

from __future__ import annotations

from pasta.pipeline.config import ToolConfig
from pasta.pipeline.graph import Graph


def as_text(config: ToolConfig, graph: Graph) -> str:
    """Return inputs, parameters and stages, each stage with its kind and its columns."""
    schemas = graph.schemas
    lines = [f"{config.name}: {config.about}", "", "inputs"]
    for name, spec in graph.inputs.items():
        optional = " (optional)" if spec.optional else ""
        run = f" of run {spec.run}" if spec.run else ""
        lines.append(f"  {name}: table {spec.table}{run}{optional}")
    if config.parameters:
        lines.append("parameters")
        for name, parameter in config.parameters.items():
            value = graph.parameters[name]
            lines.append(f"  {name}: {parameter.kind} = {value}  {parameter.about}".rstrip())
    lines.append("stages")
    for name, node in graph.nodes.items():
        array = ", array" if node.stage.array else ""
        lines.append(
            f"  {name}: {node.stage.name} from {', '.join(node.sources)} [{node.kind}{array}]"
        )
        lines.append(f"    -> {', '.join(f'{n} {t}' for n, t in schemas[name].items())}")
    return "\n".join(lines)


def as_mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart: inputs as cylinders, array stages as hexagons."""
    ids = {name: f"n{i}" for i, name in enumerate([*graph.inputs, *graph.nodes])}
    lines = ["flowchart LR"]
    for name, spec in graph.inputs.items():
        lines.append(f'  {ids[name]}[("{name}: {spec.table}")]')
    for name, node in graph.nodes.items():
        opening, closing = ("{{", "}}") if node.stage.array else ("[", "]")
        lines.append(f'  {ids[name]}{opening}"{name}: {node.stage.name}"{closing}')
        lines += [f"  {ids[source]} --> {ids[name]}" for source in node.sources]
    return "\n".join(lines)
