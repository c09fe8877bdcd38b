"""Record finished runs, and write the page, the README's table and the figure from the records.

python benchmarks/paper_report.py record runs/cifar10-resnet56   # to results/cifar10/
python benchmarks/paper_report.py page                           # docs/results/, README.md
python benchmarks/paper_report.py page --check                   # fail if they say otherwise
python benchmarks/paper_report.py ship runs/cifar10-resnet56 models/resnet56-cifar10-half
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from machine import write_json
from paper_beside import beside_others
from paper_curves import curves
from paper_page import page
from paper_record import KIND, record
from paper_studied import beside_studies, read_studies
from paper_summary import at_several_budgets, panels_of, summary
from paper_svg import svg
from triprune.errors import TripruneError
from triprune.files import write_atomically
from triprune.run.opening import open_case
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.store import Store

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- cifar10: written by benchmarks/paper_report.py -->", "<!-- /cifar10 -->"
ORDER = (
    "cifar10-resnet56",
    "cifar10-resnet56-deeper",
    "cifar10-public-resnet56",
    "cifar10-public-resnet56-deeper",
    "cifar10-resnet32",
    "cifar10-densenet40",
    "cifar10-densenet40-per-cost",
    "cifar10-densenet40-deeper",
)


def main() -> None:
    settings = parse()
    try:
        if settings.action == "record":
            for folder in settings.what:
                found = record(Path(folder))
                write_json(settings.root / "results" / "cifar10" / f"{found['name']}.json", found)
        elif settings.action == "ship":
            ship(*settings.what, data=settings.data)
        else:
            write_page(settings.root, check=settings.check)
    except TripruneError as error:
        raise SystemExit(str(error)) from error


def write_page(root: Path, *, check: bool) -> None:
    """Write the page, the README's part and the figure, or compare them with what is there."""
    for path, text in pages(root).items():
        if check and (not path.exists() or path.read_text() != text):
            raise SystemExit(f"{path} is out of date: run this without --check")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)


def pages(root: Path) -> dict[Path, str]:
    """Return what every generated file must hold."""
    runs = read_runs(root / "results" / "cifar10")
    readme = root / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    found = {
        root / "docs" / "results" / "cifar10.md": page(runs),
        readme: f"{before}{BEGIN}\n{summary(runs)}{END}{after}",
    }
    for run in at_several_budgets(runs):
        found[root / "docs" / "results" / f"{run['name']}.svg"] = curves(run)
    panels = panels_of(runs)
    if panels:
        found[root / "docs" / "results" / "cifar10.svg"] = svg(panels)
    return found


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the records, the paper's own runs first; with the single axes of runs beside them."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    kept = [run for run in runs if run["kind"] == KIND]
    places = {name: place for place, name in enumerate(ORDER)}
    kept.sort(key=lambda run: (places.get(run["name"], len(places)), run["name"]))
    return beside_studies(beside_others(kept), read_studies(folder.parent / "fine_tuning"))


def ship(folder: str, target: str, *, data: str | None) -> None:
    """Save the joint model of a finished run, its first seed: plan, weights and card."""
    store = Store(folder)
    spec = RunSpec.from_mapping(store.facts()["spec"] | ({} if data is None else {"data": data}))
    pipeline = Pipeline(open_case(spec), store)
    with store.locked():
        store.begin(pipeline.case.facts())
        home = pipeline.stored_result(spec.settings.budget).save(target)
    size = sum(file.stat().st_size for file in home.iterdir())
    print(f"{home}: {size:,} bytes")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["record", "page", "ship"])
    parser.add_argument("what", nargs="*", help="run folders; for ship, a run folder and a target")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    parser.add_argument("--data", help="instead of the config's, to ship")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    return parser.parse_args()


if __name__ == "__main__":
    main()
