"""What the suites count by: a line for each check, and the closing line that tests/run.py reads."""
results = []


def check(name, ok, note=""):
    """Notes what holds and what does not; of the latter `note` says what was seen."""
    results.append(bool(ok))
    print(f"{'ok  ' if ok else 'FAIL'} {name}" + (f": {str(note)[:400]}" if note != "" and not ok else ""), flush=True)
    return ok


def close():
    """The closing line, and the exit code: 1 if anything failed or nothing was checked."""
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if results and all(results) else 1
