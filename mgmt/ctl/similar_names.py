"""Finds the name that was meant, for commands, options and columns that do not exist. Pure."""

from collections.abc import Iterable

SIMILARITY_MIN = 0.77


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the most similar name; empty if none is similar enough."""
    similarity, nearest = max(((jaro(one, name), one) for one in known), default=(0.0, ""))
    return nearest if similarity >= SIMILARITY_MIN else ""


def jaro(first: str, second: str) -> float:
    """Return Jaro's similarity of two words, 0 to 1."""
    if first == second:
        return 1.0
    reach = max(len(first), len(second)) // 2 - 1
    taken = [False] * len(second)
    matched = []
    for place, letter in enumerate(first):
        for other in range(max(0, place - reach), min(len(second), place + reach + 1)):
            if not taken[other] and second[other] == letter:
                taken[other] = True
                matched.append(letter)
                break
    if not matched:
        return 0.0
    in_second = [letter for letter, is_taken in zip(second, taken, strict=True) if is_taken]
    moved = sum(a != b for a, b in zip(matched, in_second, strict=True)) / 2
    count = len(matched)
    return (count / len(first) + count / len(second) + (count - moved) / count) / 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar name; empty if none is similar enough."""
    nearest = suggestion(name, known)
    return f"Did you mean '{nearest}'?" if nearest else ""
