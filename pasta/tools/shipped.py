"""What ships with pasta: the tools in `configs/` and the recorded trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.adopting import with_adopted
from pasta.pipeline.config import ToolConfig, load_config

_PACKAGE = Path(__file__).parent.parent
_TRACES = _PACKAGE / "traces"
_PARTS = "parts"
SHIPPED_TRACE = _TRACES / "gpt_h100"
"""Three training steps of a small GPT on an H100: `examples/train_small_gpt.py`, its timeline and its
memory joined. `traces/gpt_cpu` beside it was recorded by `examples/record_training_step.py`."""


def find_trace(path: Path) -> Path:
    """Return the trace that `path` means: a path or, where there is none, a shipped trace's name."""
    shipped = _TRACES / path
    return shipped if not path.exists() and shipped.parent == _TRACES and shipped.is_dir() else path


def config_folder() -> Path:
    """Return the folder of shipped tools: inside the wheel, or beside the package in a checkout."""
    inside = _PACKAGE / "configs"
    return inside if inside.is_dir() else _PACKAGE.parent / "configs"


def shipped_tools() -> dict[str, Path]:
    """Return the YAML file of each shipped tool by name, sorted; `parts` has graphs that they include.

    Tools of a folder, which answer together, are called `FOLDER/NAME` and come last.
    """
    folder = config_folder()
    single = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    grouped = sorted(folder.glob("*/*.yaml"), key=lambda path: (len(path.stem), path.stem))
    return single | {
        f"{path.parent.name}/{path.stem}": path for path in grouped if path.parent.name != _PARTS
    }


def tools_called(names: Sequence[str]) -> list[str]:
    """Return the shipped tools that names mean, a folder's name all those in it; by default all in none.

    Raises:
        ConfigError: a name is neither a tool's nor a folder's.
    """
    shipped = shipped_tools()
    if not names:
        return [tool for tool in shipped if "/" not in tool]
    found: dict[str, None] = {}
    for name in names:
        own = [tool for tool in shipped if tool == name or tool.startswith(f"{name}/")]
        if not own:
            folders = {tool.split("/")[0] for tool in shipped}
            hint = did_you_mean(name, {*shipped, *folders})
            raise ConfigError("", f"no shipped tool '{name}'.{hint}")
        found |= dict.fromkeys(own)
    return list(found)


def find_config(name: str) -> Path:
    """Return the YAML file that `name` means.

    A path that exists is that file; a shipped tool's name, or a path that ends in one
    (`configs/working_set.yaml` where there is no such folder), is the shipped file; any other
    name is `NAME.yaml` or `configs/NAME.yaml` in the current folder.

    Raises:
        ConfigError: it is none of them.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = shipped_tools()
    if path.suffix in ("", ".yaml", ".yml") and not path.is_dir():
        for ending in (f"{path.parent.name}/{path.stem}", path.stem):
            if ending in shipped:
                return shipped[ending]
    local = _local_tool(name)
    if local is not None:
        return local
    hint = did_you_mean(path.stem, shipped)
    raise ConfigError("", f"no such file or shipped tool '{name}'.{hint}")


def which_ran(name: str) -> list[str]:
    """Return a remark where `name` means a shipped tool and another file here could be meant too."""
    local = _local_tool(name)
    if local is None or name not in shipped_tools():
        return []
    if local.read_bytes() == shipped_tools()[name].read_bytes():
        return []
    return [f"this tool ships with pasta; to run {local} here, name it as ./{local}"]


def _local_tool(name: str) -> Path | None:
    """Return `NAME.yaml` or `configs/NAME.yaml` in the current folder, of a name that is no path."""
    if Path(name).name != name:
        return None
    candidates = (Path(f"{name}.yaml"), Path("configs", f"{name}.yaml"))
    return next((path for path in candidates if path.is_file()), None)


class ToolFiles:
    """The files of tools and of what they include, each of which is read once."""

    def __init__(self) -> None:
        self._read: dict[Path, ToolConfig] = {}
        self._whole: dict[Path, ToolConfig] = {}

    def tool(self, name: str) -> ToolConfig:
        """Return the tool that `name` means; see `find_config`.

        Raises:
            ConfigError: there is none, it says what a tool cannot mean, or it cannot adopt what it
                wants to of a tool that it includes.
        """
        path = find_config(name)
        config = self._config(path)
        try:
            return with_adopted(config, self._included)
        except ConfigError as error:
            raise error.within(f"{path}: ") from error

    def included(self, name: str, includer: ToolConfig) -> ToolConfig:
        """Return the tool that `includer` includes: a shipped tool, or a file in or below its own folder.

        A shipped tool may also include what lies below the folder of all of them.

        Raises:
            ConfigError: it is neither; no path leads out of the folder.
        """
        path = _file_of(name, includer)
        if path not in self._whole:
            self._whole[path] = with_adopted(self._config(path), self._included)
        return self._whole[path]

    def _included(self, name: str, includer: ToolConfig) -> ToolConfig:
        return self._config(_file_of(name, includer))

    def _config(self, path: Path) -> ToolConfig:
        if path not in self._read:
            self._read[path] = load_config(path)
        return self._read[path]


def _file_of(name: str, includer: ToolConfig) -> Path:
    """Return the file that `includer` includes."""
    for folder in _folders(includer):
        path = (folder / name).resolve()
        if path.is_file() and path.suffix in (".yaml", ".yml") and path.is_relative_to(folder):
            return path
    shipped = shipped_tools()
    if name not in shipped:
        hint = did_you_mean(name, shipped)
        raise ConfigError(
            "", f"'{name}' is no shipped tool, nor a YAML file beside this one.{hint}"
        )
    return shipped[name]


def _folders(includer: ToolConfig) -> list[Path]:
    """Return where the YAML files lie that a tool may include by their paths: its own folder, and that of shipped ones.

    A copy of a shipped tool finds its parts there too, as one in a checkout beside an installed pasta does.
    """
    if includer.path is None:
        return []
    return [includer.path.parent.resolve(), config_folder().resolve()]
