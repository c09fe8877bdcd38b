"""Owns what a page says of a run's cost: epochs of the search, minutes, machines, commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper_numbers import PAPER_SEARCH_EPOCHS, Borrowed, chains_of, search_epochs

STAGES = ("baseline", "survey", "collect", "choose", "finals", "measure")


def cost(run: dict[str, Any], given: Borrowed) -> str:
    """Return what a run took; ``given`` is what it has of others."""
    lines = [f"{searched(run, given)}{not_trained(given)}"]
    if run["calls"]:
        span = "" if any(at["test"] for at in run["budgets"]) else " so far"
        told = "; ".join(minutes(run["calls"]))
        lines.append(f"Minutes of wall-clock{span}: {told}.{baseline_elsewhere(run)}")
        lines += [f"\n{machine}" for machine in dict.fromkeys(map(hardware, run["calls"]))]
        commands = "\n".join(dict.fromkeys(call["command"] for call in run["calls"]))
        lines.append(f"\n```sh\n{commands}\n```")
    return "\n".join(lines) + "\n"


def searched(run: dict[str, Any], given: Borrowed) -> str:
    """Say what the search took, and whose observations were not made again."""
    if given.chains and len(given.chains) == len(chains_of(run)):
        return f"No search: the observations are those of {lenders(given.chains)}."
    told = f"The search took {search_epochs(run, given.chains)} epochs of fine-tuning; "
    told += f"the paper's takes {PAPER_SEARCH_EPOCHS}."
    if given.chains:
        axes = " and ".join(given.chains)
        told += f" The observations of {axes} are those of {lenders(given.chains)}."
    return told


def not_trained(given: Borrowed) -> str:
    """Say whose final models were not trained again."""
    if not given.finals:
        return ""
    return (
        f" The final models of {' and '.join(given.finals)} are those of {lenders(given.finals)}."
    )


def lenders(given: dict[str, str]) -> str:
    """Return the names of those who gave, each once."""
    return " and ".join(dict.fromkeys(given.values()))


def minutes(calls: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the calls took on each device, and on which stages."""
    by_device: dict[str, list[dict[str, float]]] = {}
    for call in calls:
        device = call["circumstances"].get("gpu") or "a CPU"
        by_device.setdefault(device, []).append(call["seconds"])
    for device, spent in by_device.items():
        stages = [(stage, sum(each.get(stage, 0) for each in spent)) for stage in STAGES]
        told = ", ".join(f"{stage} {seconds / 60:.1f}" for stage, seconds in stages if seconds)
        whole = sum(sum(each.values()) for each in spent)
        yield f"{whole / 60:.1f} on {device} ({told})"


def baseline_elsewhere(run: dict[str, Any]) -> str:
    """Say how much of the original's training is in the calls, if not all of it."""
    if run["baseline"] is None:
        return ""
    done = sum(call["epochs"].get("baseline", 0) for call in run["calls"])
    whole = run["baseline"]["recipe"]["epochs"]
    if done >= whole:
        return ""
    if not done:
        return " Training the original is not among them."
    return f" Of the original's {whole} epochs {done} are among them."


def hardware(call: dict[str, Any]) -> str:
    facts = call["circumstances"]
    machine = facts.get("gpu") or f"{facts['cpu']}, {facts['threads']} threads"
    return f"{machine}, torch {facts['torch']}, triprune {facts['triprune']}, {facts['date'][:10]}."
