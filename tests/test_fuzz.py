"""A fixed 2,000 of the bad inputs of `make fuzz`: no traceback, no crash, no hang, nothing written elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent / "fuzz"


@pytest.mark.xdist_group("fuzz")
def test_two_thousand_bad_inputs_are_accepted_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FUZZ)
    import harness

    try:
        harness.prepare(tmp_path)
        results = harness.run(tmp_path, 2000, 1, seed=1, say=False, checks=False)
        bad = [r for r in results if r[1] not in ("accepted", "refused")]
        assert not bad, f"{harness.table(results)}\n{bad[:10]}"
        assert len(results) == 2000
        assert {"accepted", "refused"} == {r[1] for r in results}
    finally:
        for name in ("harness", "generators"):
            sys.modules.pop(name, None)
