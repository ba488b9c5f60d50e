"""Says where two transcripts differ."""

ABSENT = "(absent)"


def differences(expected, actual, path=""):
    """One line per difference, each with the place it is at."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        keys = list(expected) + [key for key in actual if key not in expected]
        return [
            line
            for key in keys
            for line in differences(
                expected.get(key, ABSENT),
                actual.get(key, ABSENT),
                f"{path}.{key}" if path else str(key),
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list):
        return [
            line
            for index in range(max(len(expected), len(actual)))
            for line in differences(
                _item(expected, index), _item(actual, index), f"{path}[{index}]"
            )
        ]
    if expected == actual and type(expected) is type(actual):
        return []
    return [f"{path or 'transcript'}: expected {expected!r}, got {actual!r}"]


def _item(items, index):
    return items[index] if index < len(items) else ABSENT
