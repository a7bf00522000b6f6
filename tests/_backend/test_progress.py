from __future__ import annotations

import io
import subprocess
import sys

from neucmds._backend.progress import progress_bar


def test_it_tells_the_share_and_the_time_left_and_ends_its_line():
    stream = io.StringIO()
    report = progress_bar("placed", stream, every=0.0)
    assert stream.getvalue() == ""
    report(250, 1000)
    report(1000, 1000)
    assert "placed:  25%" in stream.getvalue()
    assert "placed: 100%" in stream.getvalue()
    assert "/1.00k" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_the_bar_can_be_used_again():
    stream = io.StringIO()
    report = progress_bar("placed", stream, every=0.0)
    for total in (2, 3):
        report(total, total)
    assert "2.00/2.00" in stream.getvalue()
    assert "3.00/3.00" in stream.getvalue()
    assert stream.getvalue().count("\n") == 2


def test_tqdm_is_imported_when_it_is_needed():
    code = "import sys, neucmds; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
