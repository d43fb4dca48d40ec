"""Say which of the packages that pyproject.toml names are installed in their newest version. Never fails."""

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path


def spell(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def list_packages(*options: str) -> dict[str, dict[str, str]]:
    """What pip lists, by name; nothing if it cannot ask."""
    command = [sys.executable, "-m", "pip", "list", "--format=json", *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {spell(row["name"]): row for row in json.loads(printed or "[]")}


def main() -> None:
    """Print how many are the newest, and each that is not."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    named = {spell(found[0]) for line in asked if (found := re.match(r"[\w.-]+", line))}
    installed = (named & list_packages().keys()) - {"attomaton"}
    behind = {name: row for name, row in list_packages("--outdated").items() if name in installed}
    print(f"{len(installed) - len(behind)} of {len(installed)} packages are the newest there are")
    for name, row in sorted(behind.items()):  # PyTorch is held back, and a package may hold back another
        print(f"  {name} {row['version']}, newest {row['latest_version']}")


if __name__ == "__main__":
    main()
